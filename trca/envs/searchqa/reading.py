"""Parses SearchQA observations."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from trca.common.remembered import remembered
from trca.envs.searchqa.pages import CUT
from trca.envs.searchqa.relations import stems_of, words_of

_LINE: Final = re.compile(r"^\[(\d+)\] (?:(.{1,200}?): )?(.*)$", re.MULTILINE)


class Shown(NamedTuple):
    """A passage in an observation.

    Attributes:
        number: Number in the list of results.
        title: The text before the first colon, possibly only a part of the title; blank without a
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
