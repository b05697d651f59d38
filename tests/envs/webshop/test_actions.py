"""`read_action` parses WebShop's actions and accepts any string."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trca.envs.webshop.reading import Action, read_action


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("search[red mug]", Action("search", "red mug")),
        ("click[Buy Now]", Action("click", "buy now")),
        (" click [ red ] ", Action("click", "red")),
        ("click[red] now", Action("click", "red")),
        ("click[bundle [set of 2]]", Action("click", "bundle [set of 2]")),
        ("", Action()),
        ("search[]", Action()),
        ("search[ ]", Action()),
        ("search", Action()),
        ("buy[mug]", Action()),
        ("Click[red]", Action()),
        ("]click[", Action()),
    ],
)
def test_an_action_is_taken_apart_or_has_no_verb(text, action):
    assert read_action(text) == action


@given(st.text(alphabet="[]\n clicksearh"))
def test_any_text_is_read(text):
    assert isinstance(read_action(text), Action)


def test_a_very_long_action_is_read_at_once():
    for text in ("[" * 1_000_000, "click[" + "]" * 1_000_000, "search[" * 200_000):
        read_action(text)
