"""Instructions, actions and listings are read; any text is legal as an action."""

import json
import re
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trca.envs.alfworld.binding import ALFWorldBinding, bind
from trca.envs.alfworld.reading import Action, read_action, things

ARCHIVE = Path(__file__).parents[4] / "shared" / "data" / "alfworld" / "json_2.1.1.tar.xz"

PLAIN = ALFWorldBinding("mug", destination="desk")
CLEAN = ALFWorldBinding("mug", "clean", "sinkbasin", 1, "desk")
HOT = ALFWorldBinding("egg", "hot", "microwave", 1, "fridge")
COOL = ALFWorldBinding("egg", "cool", "fridge", 1, "fridge")
TWO = ALFWorldBinding("cd", quantity=2, destination="safe")
LOOK = ALFWorldBinding("bowl", lamp="desklamp")


@pytest.mark.parametrize(
    ("task", "binding"),
    [
        ("put a mug in desk.", PLAIN),
        ("put some mug on desk.", PLAIN),
        ("put a clean mug in desk", CLEAN),
        ("clean some mug and put it in desk.", CLEAN),
        ("put a hot egg in fridge.", HOT),
        ("heat some egg and put it in fridge.", HOT),
        ("put a cool egg in fridge.", COOL),
        ("cool some egg and put it in fridge.", COOL),
        ("put two cd in safe.", TWO),
        ("find two cd and put them in safe.", TWO),
        ("look at bowl under the desklamp.", LOOK),
        ("examine the bowl with the desklamp.", LOOK),
    ],
)
def test_both_phrasings_of_every_task_type(task, binding):
    assert bind(task) == binding


@pytest.mark.parametrize("task", ["", "win", "put a mug", "slice a pen", "put a mug in desk 1"])
def test_an_instruction_of_no_known_form_is_refused(task):
    with pytest.raises(ValueError, match="known forms are"):
        bind(task)


@pytest.mark.skipif(not ARCHIVE.exists(), reason="needs the official games in ../shared/data")
def test_every_official_instruction_is_read_as_its_folder_says():
    """Folder names are ``type-target-...-destination or lamp-scene``."""
    states = {"clean": "clean", "heat": "hot", "cool": "cool"}
    count = 0
    with tarfile.open(ARCHIVE) as archive:
        for member in archive:
            if not member.name.endswith("game.tw-pddl"):
                continue
            kind, target, _, place, _ = member.name.split("/")[2].split("-")
            grammar = json.load(archive.extractfile(member))["grammar"]
            binding = bind(re.search(r"Your task is to: (.*?)\"", grammar)[1])
            assert binding.target == target.lower()
            assert (binding.lamp or binding.destination) == place.lower()
            assert bool(binding.lamp) == kind.startswith("look_at")
            assert binding.quantity == (2 if kind.startswith("pick_two") else 1)
            assert binding.state == states.get(kind.split("_")[1], "")
            count += 1
    assert count == 4027


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("go to desk 1", Action("goto", receptacle="desk 1")),
        ("open drawer 12", Action("open", receptacle="drawer 12")),
        ("close drawer 12", Action("close", receptacle="drawer 12")),
        ("take mug 1 from desk 2", Action("take", "mug 1", "desk 2")),
        ("move mug 1 to desk 2", Action("move", "mug 1", "desk 2")),
        ("heat egg 1 with microwave 1", Action("heat", "egg 1", "microwave 1")),
        ("clean egg 1 with sinkbasin 1", Action("clean", "egg 1", "sinkbasin 1")),
        ("cool egg 1 with fridge 1", Action("cool", "egg 1", "fridge 1")),
        ("slice egg 1 with knife 1", Action("slice", "egg 1", tool="knife 1")),
        ("use desklamp 1", Action("use", "desklamp 1")),
        ("examine mug 1", Action("examine", "mug 1")),
        ("look", Action("look")),
        ("inventory", Action("inventory")),
        ("help", Action("help")),
        ("", Action()),
        ("Look", Action()),
        (" look ", Action("look")),
        ("go to the desk", Action()),
        ("go to desk 1\n", Action("goto", receptacle="desk 1")),
        ("put mug 1 in/on desk 2", Action()),
        ("take mug 1", Action()),
    ],
)
def test_an_action_is_taken_apart_or_has_no_verb(text, action):
    assert read_action(text) == action


@given(st.text())
def test_any_text_is_read(text):
    assert isinstance(read_action(text), Action)


def test_a_very_long_action_has_no_verb():
    assert read_action("go to " + "d" * 1_000_000 + " 1") == Action()


def test_listings_are_read_in_order():
    text = "On the desk 1, you see a alarmclock 2, an apple 1, and a cd 10."
    assert things(text) == ("alarmclock 2", "apple 1", "cd 10")
    assert things("On the desk 1, you see nothing.") == ()
