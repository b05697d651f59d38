"""The facts: names in a listing, and types without room for hidden state."""

import dataclasses
import inspect

import pytest

from trca.envs.alfworld.adapter import ALFWorldAdapter, ALFWorldFacts
from trca.envs.alfworld.binding import ALFWorldBinding
from trca.envs.alfworld.reading import things

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


def test_the_adapter_takes_only_what_the_agent_was_shown_offered_and_did():
    reset = list(inspect.signature(ALFWorldAdapter.reset).parameters)
    step = list(inspect.signature(ALFWorldAdapter.step).parameters)
    assert reset == ["self", "instruction", "observation", "admissible"]
    assert step == ["self", "action", "observation", "admissible"]
    assert list(inspect.signature(ALFWorldAdapter).parameters) == []
