"""The task binder of WebShop: parses the instruction (paper, Appendix A.2)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from trca.common.cache import remembered

_WORD = re.compile(r"[^\W_]+(?:[.'][^\W_]+)*")
_PRICE = re.compile(
    r",?\s*(?:and\s+)?(?:with\s+a\s+)?pric\w*\s+(?:lower|less|cheaper|below|under)(?:\s+than)?\s+"
    r"\$?(\d+(?:\.\d+)?)(?:\s+dollars)?"
)
_FILLER_TEXT: Final = """
a about all also am an and any are as at be been best buy by can could dollars each find for from
get give good got had has have help here i i'd i'll i'm i've if in is it it's its just like look
looking lower made make me more must my need needs nice not of on one or order our out please
preferably price prices purchase select she shop shopping should show so some something such than
that the their them then there these they thing this those to two under up us use used very want
wanted wants was we what which who will with works would you your
"""
_FILLER: Final = frozenset(_FILLER_TEXT.split())


@dataclass(frozen=True)
class WebShopBinding:
    """The requirements in an instruction. The defaults contain no requirement.

    An instruction is free text. Only the pages show which of its words name the product, an
    attribute or an option.

    Attributes:
        words: The content words in order, without repeats: lowercased, singular, without filler
            words.
        phrasing: All words in order, lowercased, without the price. The search for option values
            uses this field.
        price_limit: Largest permitted price in dollars; 0 for no limit.
    """

    words: tuple[str, ...] = ()
    phrasing: tuple[str, ...] = ()
    price_limit: float = 0.0


@lru_cache(maxsize=4096)
def bind(instruction: str) -> WebShopBinding:
    """Parses an instruction; any text is valid.

    Example: ``i need enamel mugs in red, and price lower than 70.00 dollars``.
    """
    text, *priced = _PRICE.split(instruction.lower())
    phrasing = words_of(" ".join([text, *priced[1::2]]))
    content = dict.fromkeys(singular(w) for w in phrasing if w not in _FILLER)
    return WebShopBinding(
        words=tuple(content),
        phrasing=phrasing,
        price_limit=float(priced[0]) if priced else 0.0,
    )


@lru_cache(maxsize=8192)
def wanted(binding: WebShopBinding, values: tuple[str, ...], group: str = "") -> tuple[str, ...]:
    """The values of one option group that the instruction requests, in the order of the group.

    A value is requested if its words are adjacent in the instruction. If no complete value matches,
    either side of ``12 fl oz | 355ml`` may match. Of two matches such as ``black walnut`` and
    ``black``, only the longer counts. With ``color: black`` in the instruction, no further colour
    is requested.
    """
    text, label = _spaced(binding.phrasing), _words(group)
    whole = {value: run for value in values if (run := _words(value))}
    named = {v: run for v, run in whole.items() if _spaced(run) in text}
    labelled = {v: run for v, run in named.items() if label and _spaced(label + run) in text}
    matches = labelled or named
    if not matches:
        sides = ((v, words_of(part)) for v in values if "|" in v for part in v.split("|"))
        matches = {
            value: side
            for value, side in sides
            if any(word[0].isalpha() for word in side) and _spaced(side) in text
        }
    return tuple(
        value
        for value, run in matches.items()
        if not any(set(run) < set(other_run) for other_run in matches.values())
    )


def query_words(binding: WebShopBinding) -> tuple[str, ...]:
    """The content words in the form of the instruction, in order, without repeats."""
    return tuple(dict.fromkeys(w for w in binding.phrasing if singular(w) in binding.words))


def words_of(text: str) -> tuple[str, ...]:
    """The lower-case words; ``1.5`` and ``women's`` are one word, ``x-large`` is two."""
    return tuple(_WORD.findall(text.lower()))


def singular(word: str) -> str:
    """A word without its plural ending."""
    if len(word) > 3 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 4 and word.endswith(("ches", "shes", "sses", "xes")):
        return word[:-2]
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us")):
        return word[:-1]
    return word


def stems(text: str) -> frozenset[str]:
    """The words of a text without plural endings."""
    return frozenset([singular(word) for word in words_of(text)])


_words = remembered(entries=16384, longest=200)(words_of)

catalogue_stems = remembered(entries=8192, longest=2000)(stems)
"""`stems` with a cache, for texts of the catalogue. Texts of an agent are not cached."""


def _spaced(words: tuple[str, ...]) -> str:
    """The words between spaces, so that ``in`` finds runs of complete words only."""
    return f" {' '.join(words)} "
