"""What a SearchQA observation shows, read from its text."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from trca.common.remembered import remembered
from trca.envs.searchqa.pages import CUT
from trca.envs.searchqa.relations import stems_of, words_of

_LINE: Final = re.compile(r"^\[(\d+)\] (?:(.{1,200}?): )?(.*)$", re.MULTILINE)


class Shown(NamedTuple):
    """A passage as an observation shows it.

    Attributes:
        number: Its number among the results.
        title: What stands before the first colon, which may be a part of a title; blank where no
            colon is.
        text: The rest.
    """

    number: int
    title: str
    text: str

    @property
    def key(self) -> tuple[str, str]:
        """What tells it from others, whether cut or in full: its title and how it begins."""
        return self.title, self.text.removesuffix(CUT)[:40]

    @property
    def words(self) -> str:
        """The words of title and text between spaces, for `says`."""
        return spaced(f"{self.title} {self.text}")

    @property
    def stems(self) -> frozenset[str]:
        """What its words come from."""
        return _stem_set(f"{self.title} {self.text}")

    @property
    def heading(self) -> str:
        """The words of the title between spaces."""
        return spaced(self.title)


@remembered(entries=4096, longest=20_000)
def read_passages(observation: str) -> tuple[Shown, ...]:
    """The passages of a list of results, or the opened one; none elsewhere."""
    if not observation.startswith("["):
        return ()
    return tuple([Shown(int(n[:9]), title, text) for n, title, text in _LINE.findall(observation)])


def spaced(text: str) -> str:
    """The words of a text in lower case, each between spaces, so that ``in`` finds whole words."""
    return f" {' '.join(words_of(text))} "


def says(words: str, name: str) -> bool:
    """Whether spaced words have those of a name side by side; a name without words is nowhere."""
    spread = spaced(name)
    return len(spread) > 2 and spread in words


@remembered(entries=8192, longest=2000)
def _stem_set(text: str) -> frozenset[str]:
    return frozenset(stems_of(text))
