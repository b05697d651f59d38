"""Groups words of the same relation: ``who wrote``, ``the author of``, ``written by``."""

from __future__ import annotations

import re
from typing import Final

from trca.common.remembered import remembered
from trca.envs.retrieval.porter import stem

_FAMILIES: Final = """
author wrote written write writes writer writers novelist
screenwriter screenplay
born birth birthplace birthdate
died die dies death dead deceased
directed director directs
composed composer music
produced producer
played plays portrayed portrays starred starring stars actor actress
sang sung sings singer performed performer recorded
painted painter painting
designed designer architect built builder
founded founder founders founding established co-founded
begin began begun begins start started starts
released release came come out
invented inventor discovered discoverer
married marries wife husband spouse widow
father son daughter child children parent parents
mother
sibling siblings brother sister
teacher taught teaches teach
located location situated lies
neighbour neighbor next adjacent borders bordering
capital
country countries nation nationality
population inhabitants people
owner owned owns
sell sold sells sale
headquartered headquarters based seat
leader led leads head headed chief president
religion religious faith
employer employed employs
studied student educated attended graduated alma
won winner wins awarded award
published publisher
"""
_KIND_TEXT: Final = "genre style occupation profession job living work works worked"
_KIND: Final = "is a"
"""The cue of a type in a text: ``is a singer`` states a profession."""
_COPULAS: Final = frozenset(("is", "was", "are", "were"))
_ARTICLES: Final = frozenset(("a", "an"))
_WORD: Final = re.compile(r"[^\W_]+(?:[.'’&-][^\W_]+)*")


@remembered(entries=16384, longest=2000)
def words_of(text: str) -> tuple[str, ...]:
    """The words of a text in lower case, without possessive endings."""
    words = _WORD.findall(text.lower())
    return tuple([w[:-2] if w.endswith(("'s", "’s")) and len(w) > 2 else w for w in words])


def stems_of(text: str) -> tuple[str, ...]:
    """The stem of each word in order. Words of one family have the stem of its first word.

    Words that ask for a type, such as ``genre``, share one stem with the ``a`` of ``is a``.
    """
    words = words_of(text)
    return tuple(
        [
            _KIND if word in _ARTICLES and before in _COPULAS else _cue(word)
            for before, word in zip(("", *words), words, strict=False)
        ]
    )


def is_relation(word: str) -> bool:
    """Whether a lower-case word belongs to a family."""
    return word in _CUES


@remembered(entries=16384, longest=40)
def _cue(word: str) -> str:
    return _CUES.get(word) or stem(word)


_CUES: Final = {
    word: stem(line.split()[0]) for line in _FAMILIES.strip().splitlines() for word in line.split()
} | dict.fromkeys(_KIND_TEXT.split(), _KIND)
"""Word -> the stem of the first word of its family."""
