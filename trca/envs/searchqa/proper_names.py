"""Finds names in English text: quoted text and runs of capitalised words.

>>> names_in("In 1999 Dr. Ada Balan of the Guild met J. Ek.")
('1999', 'Dr Ada Balan of the Guild', 'J Ek')
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_TOKEN: Final = re.compile(r"""(?<![^\W_])[^\W_]++(?:[.'’&-]++[^\W_]++)*\.?(?=\W|$)|["“”,;:?!()]""")
"""A word or a mark. Possessive and from the beginning of a word on: linear in any text."""
_QUOTED: Final = re.compile(r'["“]([^"“”]+)["”]|(?<!\w)[\'‘]([^\'‘’]+)[\'’](?!\w)')
_YEAR: Final = re.compile(r"(?:1\d|20)\d\d")
_HONORIFICS: Final = frozenset(("dr", "mr", "mrs", "ms", "st", "jr", "sr", "vs", "no"))
_JOINTS: Final = frozenset(("of", "the", "de", "la", "du", "di", "da", "van", "von", "der", "and"))
_FILLER_TEXT: Final = """
a about after all also although am an and any are as at be became been before being but by called
can could did do does done each ever film for form from get give gives go goes had has have he her
his how i in into is it its kind like many movie much name named new not of on one or organisation
organization other over own person place she should show since so some someone such than that the
their them then there these they this those though to town type under up use used using very was we
were what when where whether which while who whom whose why will with would year years you your
"""
FILLER: Final = frozenset(_FILLER_TEXT.split())
"""Words without content. A filler word at the beginning of a sentence begins no name."""


def names_in(text: str) -> tuple[str, ...]:
    """The names and numbers in a text in order, as written: runs of capitalised words, digits."""
    return tuple([" ".join(run) for run in _runs(text, splitting=True, numbers=True)])


def names_asked(question: str, splitting: bool) -> tuple[str, ...]:
    """The names in a question without repeats: quoted text, then runs of capitalised words.

    Args:
        question: The question.
        splitting: Whether ``and`` separates two names.
    """
    quoted = [match[1] or match[2] for match in _QUOTED.finditer(question)]
    runs = _runs(_QUOTED.sub(" , ", question), splitting, numbers=False)
    return tuple(dict.fromkeys([*quoted, *(" ".join(run) for run in runs)]))


def _runs(text: str, splitting: bool, numbers: bool) -> Iterator[list[str]]:
    """Yields runs of capitalised words, including the numbers and small words between them.

    Args:
        text: Any text.
        splitting: Whether ``and`` separates two names.
        numbers: Whether a number without a capitalised word is a run too.
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
