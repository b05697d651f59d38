"""Reads English text: words, names, and groups of words of the same relation.

>>> names_in("In 1999 Dr. Ada Balan of the Guild met J. Ek.")
('1999', 'Dr Ada Balan of the Guild', 'J Ek')

A name is quoted text, or a run of capitalised words. One relation has many words: ``who wrote``,
``the author of``, ``written by``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from trca.common.cache import remembered
from trca.common.strict_yaml import packaged
from trca.envs.retrieval.porter import stem

_TOKEN: Final = re.compile(r"""(?<![^\W_])[^\W_]++(?:[.'’&-]++[^\W_]++)*\.?(?=\W|$)|["“”,;:?!()]""")
"""A word or a mark. Possessive and from the beginning of a word on: linear in any text."""
_QUOTED: Final = re.compile(r'["“]([^"“”]+)["”]|(?<!\w)[\'‘]([^\'‘’]+)[\'’](?!\w)')
_YEAR: Final = re.compile(r"(?:1\d|20)\d\d")
_HONORIFICS: Final = frozenset(("dr", "mr", "mrs", "ms", "st", "jr", "sr", "vs", "no"))
_JOINTS: Final = frozenset(("of", "the", "de", "la", "du", "di", "da", "van", "von", "der", "and"))
_KIND: Final = "is a"
"""The cue of a type in a text: ``is a singer`` states a profession."""
_COPULAS: Final = frozenset(("is", "was", "are", "were"))
_ARTICLES: Final = frozenset(("a", "an"))
_WORD: Final = re.compile(r"[^\W_]+(?:[.'’&-][^\W_]+)*")
_ENGLISH: Final = packaged(__package__, "english.yaml")
FILLER: Final = frozenset(_ENGLISH["filler"])
"""Words without content. A filler word at the beginning of a sentence begins no name."""
MONTHS, NUMBER_WORDS, LIMITING = (
    frozenset[str](_ENGLISH[kind]) for kind in ("months", "numbers", "limiting")
)
CUES: Final[dict[str, str]] = {
    word: stem(family[0]) for family in _ENGLISH["families"] for word in family
} | dict.fromkeys(_ENGLISH["kinds"], _KIND)
"""Word -> the stem of the first word of its family."""


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
            _KIND if word in _ARTICLES and before in _COPULAS else CUES.get(word) or stem(word)
            for before, word in zip(("", *words), words, strict=False)
        ]
    )


def names_in(text: str) -> tuple[str, ...]:
    """The names and numbers in a text in order, as written: runs of capitalised words, digits."""
    return tuple([" ".join(run) for run in _runs(text, splitting=True, numbers=True)])


def names_asked(question: str, splitting: bool) -> tuple[str, ...]:
    """The names in a question without repeats: quoted text, then runs of capitalised words.

    With ``splitting``, ``and`` separates two names.
    """
    quoted = [match[1] or match[2] for match in _QUOTED.finditer(question)]
    runs = _runs(_QUOTED.sub(" , ", question), splitting, numbers=False)
    return tuple(dict.fromkeys([*quoted, *(" ".join(run) for run in runs)]))


def _runs(text: str, splitting: bool, numbers: bool) -> Iterator[list[str]]:
    """Yields runs of capitalised words, including the numbers and small words between them.

    With ``splitting``, ``and`` separates two names. With ``numbers``, a number without a
    capitalised word is a run too.
    """
    run: list[str] = []
    joints: list[str] = []
    starts = True
    for token in [*_TOKEN.findall(text), ","]:
        word = token.rstrip(".")
        possessive = word.endswith(("'s", "’s"))
        plain = word[:-2] if possessive else word
        capital = plain[:1].isupper() and not (starts and plain.lower() in FILLER)
        number = plain[:1].isdigit() and (numbers or bool(run) or not _YEAR.fullmatch(plain))
        if capital and len(run) == 1 and _YEAR.fullmatch(run[0]):
            yield from _named(run, numbers)
            run, joints = [], []
        if capital or (number and (numbers or bool(run) or not starts)):
            run += [*joints, plain] if run else [plain]
            joints = []
        elif run and plain.lower() in _JOINTS and not (splitting and plain == "and"):
            joints.append(plain)
            starts = False
            continue
        stops = token in "?!:;" or (
            token.endswith(".") and len(plain) > 1 and plain.lower() not in _HONORIFICS
        )
        if run and (stops or possessive or not (capital or number)):
            yield from _named(run, numbers)
            run, joints = [], []
        starts = stops or token in '"“”'


def _named(run: list[str], numbers: bool) -> Iterator[list[str]]:
    """Yields the run, unless it has numbers only and ``numbers`` is False."""
    if numbers or any(word[:1].isalpha() for word in run):
        yield run
