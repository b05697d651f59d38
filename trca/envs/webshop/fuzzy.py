"""Fuzzy equality of phrases: thefuzz 0.19's ``token_set_ratio`` above 85, and colours.

thefuzz uses `difflib`, which is slow and differs from faster libraries in some cases. This module
gives the same answer for every pair of strings and runs `difflib` only if cheaper bounds do not
decide.
"""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from functools import lru_cache
from typing import Final

_DELETED: Final = dict.fromkeys(range(128, 256))
_NOT_WORD: Final = re.compile(r"\W")
_PAIRS: Final = 2**15

_COLOURS: Final = """
alabaster apricot aqua ash asphalt azure banana beige black blue blush bordeaux bronze brown
burgundy camel camo caramel champagne charcoal cheetah chestnut chocolate christmas coffee cognac
copper coral cranberry cream crystal dark denim eggplant elephant espresso fuchsia gold granite
grape graphite grass gray green grey heather indigo ivory ivy khaki lavender lemon leopard light
lilac lime magenta maroon mauve merlot midnight mint mocha multicolor mushroom mustard natural
navy nude olive orange peach pewter pink plum purple rainbow red rose royal rust sand sapphire
seashell silver skull slate steel stone stonewash sunflower tan taupe teal tiger turquoise violet
walnut wheat white wine yellow
"""
COLOURS: Final = tuple(_COLOURS.split())
"""Colour names that replace option values, in the order of the search (``COLOR_SET`` of
princeton-nlp/WebShop, MIT)."""


@lru_cache(_PAIRS)
def colour_or_self(value: str) -> str:
    """The first of `COLOURS` that is a substring of the value, else the value."""
    return next((colour for colour in COLOURS if colour in value), value)


@lru_cache(_PAIRS)
def says_the_same(first: str, second: str) -> bool:
    """Whether ``thefuzz.fuzz.token_set_ratio(first, second) > 85``."""
    tokens1, tokens2 = _tokens(first), _tokens(second)
    if not tokens1 or not tokens2:
        return False
    shared = tokens1 & tokens2
    if shared and (tokens1 == shared or tokens2 == shared):
        return True
    common = " ".join(sorted(shared))
    full1 = f"{common} {' '.join(sorted(tokens1 - shared))}".strip()
    full2 = f"{common} {' '.join(sorted(tokens2 - shared))}".strip()
    if common and (_close(common, full1) or _close(common, full2)):
        return True
    return _close(full1, full2)


@lru_cache(_PAIRS)
def _tokens(phrase: str) -> frozenset[str]:
    return frozenset(_NOT_WORD.sub(" ", phrase.translate(_DELETED)).lower().split())


def _close(first: str, second: str) -> bool:
    """Whether difflib's ratio in percent, rounded half to even, is above 85."""
    matcher = SequenceMatcher(None, first, second)
    return all(
        round(100 * ratio()) > 85
        for ratio in (matcher.real_quick_ratio, matcher.quick_ratio, matcher.ratio)
    )
