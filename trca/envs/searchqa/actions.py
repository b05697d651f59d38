"""Parses the three actions: ``search[query]``, ``open[n]`` and ``answer[text]``."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, cast

Verb = Literal["", "search", "open", "answer"]
VERBS: Final = ("search", "open", "answer")

SEARCH_OFFER: Final = "search[<your query>]"
"""A search among the admissible actions."""
ANSWER_OFFER: Final = "answer[<your answer>]"
"""An answer among the admissible actions."""


class Action(NamedTuple):
    """A parsed action.

    Attributes:
        verb: The verb; blank for a text that is no action.
        argument: The text in brackets, with single spaces.
    """

    verb: Verb = ""
    argument: str = ""

    @property
    def number(self) -> int:
        """The number in an ``open`` action; 0 without a number."""
        argument = self.argument
        plain = argument.isascii() and argument.isdecimal() and len(argument) < 5
        return int(argument) if self.verb == "open" and plain else 0


def read_action(text: str) -> Action:
    """Parses an action in linear time; any string is legal and may turn out to be no action.

    Upper and lower case of the verb are equal. Spaces around the verb are ignored.
    """
    head, _, rest = text.strip().partition("[")
    verb = head.strip().lower()
    if verb not in VERBS or not rest.endswith("]"):
        return Action()
    argument = " ".join(rest[:-1].encode(errors="replace").decode().split())
    return Action(cast("Verb", verb), argument)


def offered_actions(results: int) -> list[str]:
    """The admissible actions after a search with this number of results."""
    opens = (f"open[{number}]" for number in range(1, results + 1))
    return [SEARCH_OFFER, *opens, ANSWER_OFFER]
