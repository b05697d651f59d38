"""The binder parses every instruction, in both phrasings, without a model."""

import json
import re
import tarfile
from pathlib import Path

import pytest

from trca.envs.alfworld.binding import ALFWorldBinding, bind

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
        (
            "clean some mug and put it in desk.",
            CLEAN,
        ),
        ("put a hot egg in fridge.", HOT),
        (
            "heat some egg and put it in fridge.",
            HOT,
        ),
        ("put a cool egg in fridge.", COOL),
        (
            "cool some egg and put it in fridge.",
            COOL,
        ),
        ("put two cd in safe.", TWO),
        (
            "find two cd and put them in safe.",
            TWO,
        ),
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
