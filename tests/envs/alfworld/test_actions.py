"""`read_action` parses ALFWorld's actions and accepts any string."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trca.envs.alfworld.reading import Action, read_action


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
