"""Parses actions, ``search[query]``, ``open[n]`` and ``answer[text]``, and observations."""

from __future__ import annotations

import re
from typing import Final, Literal, NamedTuple, cast

from trca.common.cache import remembered
from trca.envs.searchqa.english import stems_of, words_of
from trca.envs.searchqa.pages import CUT

Verb = Literal["", "search", "open", "answer"]
VERBS: Final = ("search", "open", "answer")

SEARCH_OFFER: Final = "search[<your query>]"
"""A search among the admissible actions."""
ANSWER_OFFER: Final = "answer[<your answer>]"
"""An answer among the admissible actions."""
_LINE: Final = re.compile(r"^\[(\d+)\] (?:(.{1,200}?): )?(.*)$", re.MULTILINE)


class Action(NamedTuple):
    """A parsed action.

    Attributes:
        verb: The verb; empty for a text that is not an action.
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


class Shown(NamedTuple):
    """A passage in an observation.

    Attributes:
        number: Number in the list of results.
        title: The text before the first colon, possibly only a part of the title; empty without a
            colon.
        text: The remaining text.
    """

    number: int
    title: str
    text: str

    @property
    def key(self) -> tuple[str, str]:
        """Identifies a passage, cut or complete: its title and the beginning of its text."""
        return self.title, self.text.removesuffix(CUT)[:40]

    @property
    def words(self) -> str:
        """The words of title and text, with a space around each word, for `says`."""
        return spaced(f"{self.title} {self.text}")

    @property
    def stems(self) -> frozenset[str]:
        """The stems of the words of title and text."""
        return _stem_set(f"{self.title} {self.text}")

    @property
    def heading(self) -> str:
        """The words of the title, with a space around each word."""
        return spaced(self.title)


@remembered(entries=4096, longest=20_000)
def read_passages(observation: str) -> tuple[Shown, ...]:
    """The passages of a list of results, or the opened passage; empty for any other observation."""
    if not observation.startswith("["):
        return ()
    return tuple([Shown(int(n[:9]), title, text) for n, title, text in _LINE.findall(observation)])


def spaced(text: str) -> str:
    """The lower-case words with a space around each word, so that ``in`` finds complete words."""
    return f" {' '.join(words_of(text))} "


def says(words: str, name: str) -> bool:
    """Whether spaced words contain a name word for word; False for a name without words."""
    spread = spaced(name)
    return len(spread) > 2 and spread in words


@remembered(entries=8192, longest=2000)
def _stem_set(text: str) -> frozenset[str]:
    return frozenset(stems_of(text))
