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
    """A parsed action; a text that is not an action has no verb."""

    verb: Verb = ""
    argument: str = ""

    @property
    def number(self) -> int:
        """The number in an ``open`` action; 0 without a number."""
        argument = self.argument
        plain = argument.isascii() and argument.isdecimal() and len(argument) < 5
        return int(argument) if self.verb == "open" and plain else 0


def read_action(text: str) -> Action:
    """Parses an action in linear time. Case and surrounding spaces of the verb do not matter."""
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
        title: The text before the first colon, possibly only a part of the title.
        text: The remaining text.
        key: Identifies a passage, cut or complete: its title and the beginning of its text.
        heading: The words of the title, with a space around each word.
        words: The words of title and text, with a space around each word, for `says`.
        stems: The stems of these words.
    """

    number: int
    title: str
    text: str
    key: tuple[str, str]
    heading: str
    words: str
    stems: frozenset[str]


@remembered(entries=2048, longest=20_000)
def read_passages(observation: str) -> tuple[Shown, ...]:
    """The passages of a list of results, or the opened passage; empty for any other observation."""
    passages = []
    for number, title, text in _LINE.findall(observation) if observation[:1] == "[" else ():
        key, contents = (title, text.removesuffix(CUT)[:40]), f"{title} {text}"
        words = (spaced(title), spaced(contents), frozenset(stems_of(contents)))
        passages.append(Shown(int(number[:9]), title, text, key, *words))
    return tuple(passages)


def spaced(text: str) -> str:
    """The lower-case words with a space around each word, so that ``in`` finds complete words."""
    return f" {' '.join(words_of(text))} "


def says(words: str, name: str) -> bool:
    """Whether spaced words contain a name word for word; False for a name without words."""
    spread = spaced(name)
    return len(spread) > 2 and spread in words
