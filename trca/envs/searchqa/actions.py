"""The three actions in words: ``search[query]``, ``open[n]`` and ``answer[text]``."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, cast

Verb = Literal["", "search", "open", "answer"]
VERBS: Final = ("search", "open", "answer")

SEARCH_OFFER: Final = "search[<your query>]"
"""A search among the admissible actions."""
ANSWER_OFFER: Final = "answer[<your answer>]"
"""An answer among the admissible actions."""


class Action(NamedTuple):
    """An action as read.

    Attributes:
        verb: What it asks for; blank when it is none of the three.
        argument: What stands in its brackets, with single spaces.
    """

    verb: Verb = ""
    argument: str = ""

    @property
    def number(self) -> int:
        """The number that an ``open`` names; 0 when it names none."""
        argument = self.argument
        plain = argument.isascii() and argument.isdecimal() and len(argument) < 5
        return int(argument) if self.verb == "open" and plain else 0


def read_action(text: str) -> Action:
    """Reads an action; any string is legal, costs linear time, and may turn out to be none.

    The case of the verb and spaces around it do not matter.
    """
    head, _, rest = text.strip().partition("[")
    verb = head.strip().lower()
    if verb not in VERBS or not rest.endswith("]"):
        return Action()
    argument = " ".join(rest[:-1].encode(errors="replace").decode().split())
    return Action(cast("Verb", verb), argument)


def offered_actions(results: int) -> list[str]:
    """What is accepted when the last search has found that many passages."""
    opens = (f"open[{number}]" for number in range(1, results + 1))
    return [SEARCH_OFFER, *opens, ANSWER_OFFER]
