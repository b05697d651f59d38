"""The facts: commands taken apart, and types that have no room for what must not be known."""

import dataclasses
import inspect

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trca.envs.alfworld.adapter import ALFWorldAdapter
from trca.envs.alfworld.binding import ALFWorldBinding
from trca.envs.alfworld.facts import ALFWorldFacts, Command, read_command, things

FORBIDDEN = ("won", "win", "done", "score", "reward", "success", "terminal", "goal_met", "label")
FORBIDDEN += (
    "future",
    "hidden",
    "answer",
    "walkthrough",
    "solution",
    "game",
    "simulator",
    "engine",
)


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("go to desk 1", Command("goto", receptacle="desk 1")),
        ("open drawer 12", Command("open", receptacle="drawer 12")),
        ("close drawer 12", Command("close", receptacle="drawer 12")),
        ("take mug 1 from desk 2", Command("take", "mug 1", "desk 2")),
        ("move mug 1 to desk 2", Command("move", "mug 1", "desk 2")),
        ("heat egg 1 with microwave 1", Command("heat", "egg 1", "microwave 1")),
        ("clean egg 1 with sinkbasin 1", Command("clean", "egg 1", "sinkbasin 1")),
        ("cool egg 1 with fridge 1", Command("cool", "egg 1", "fridge 1")),
        ("slice egg 1 with knife 1", Command("slice", "egg 1", tool="knife 1")),
        ("use desklamp 1", Command("use", "desklamp 1")),
        ("examine mug 1", Command("examine", "mug 1")),
        ("look", Command("look")),
        ("inventory", Command("inventory")),
        ("help", Command("help")),
        ("", Command()),
        ("Look", Command()),
        ("look ", Command()),
        ("go to the desk", Command()),
        ("go to desk 1\n", Command()),
        ("put mug 1 in/on desk 2", Command()),
        ("take mug 1", Command()),
    ],
)
def test_a_command_is_taken_apart_or_has_no_verb(text, command):
    assert read_command(text) == command


@given(st.text())
def test_any_text_is_read(text):
    assert isinstance(read_command(text), Command)


def test_a_very_long_command_has_no_verb():
    assert read_command("go to " + "d" * 1_000_000 + " 1") == Command()


def test_listings_are_read_in_order():
    text = "On the desk 1, you see a alarmclock 2, an apple 1, and a cd 10."
    assert things(text) == ("alarmclock 2", "apple 1", "cd 10")
    assert things("On the desk 1, you see nothing.") == ()


@pytest.mark.parametrize("record", [ALFWorldFacts, ALFWorldBinding])
def test_no_field_can_hold_a_label_or_hidden_state(record):
    for field in dataclasses.fields(record):
        assert not any(word in field.name for word in FORBIDDEN)
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(record(), dataclasses.fields(record)[0].name, None)


def test_the_tracker_takes_only_what_the_agent_was_shown_offered_and_did():
    reset = list(inspect.signature(ALFWorldAdapter.reset).parameters)
    step = list(inspect.signature(ALFWorldAdapter.step).parameters)
    assert reset == ["self", "task", "observation", "admissible"]
    assert step == ["self", "command", "observation", "admissible"]
    assert list(inspect.signature(ALFWorldAdapter).parameters) == []
