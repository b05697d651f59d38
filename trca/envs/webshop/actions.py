"""Parses the two actions, ``search[query]`` and ``click[x]``, and reads admissible actions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

Verb = Literal["", "search", "click"]

SEARCH_OFFER: Final = "search[<your query>]"
"""A search among the admissible actions."""


class Action(NamedTuple):
    """A parsed action.

    Attributes:
        verb: The verb; blank for a text that is no action.
        argument: The text in brackets, in lower case.
    """

    verb: Verb = ""
    argument: str = ""


def read_action(text: str) -> Action:
    """Parses an action. Blanks around its parts and text after the last ``]`` are ignored."""
    name, _, argument = text[: text.rfind("]") + 1].partition("[")
    argument = argument[:-1].strip().lower()
    match name.strip() if argument else "":
        case "search":
            return Action("search", argument)
        case "click":
            return Action("click", argument)
    return Action()


def clickable(admissible: Sequence[str]) -> frozenset[str]:
    """The names of all clicks among the admissible actions."""
    return frozenset([a[6:-1] for a in admissible if a.startswith("click[")])


def can_click(name: str, admissible: Sequence[str]) -> bool:
    """Whether the admissible actions include this click."""
    return f"click[{name}]" in admissible


def can_search(admissible: Sequence[str]) -> bool:
    """Whether the admissible actions include a search."""
    return bool(admissible) and admissible[0].startswith("search[")
