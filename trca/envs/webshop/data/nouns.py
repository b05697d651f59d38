"""Extracts the nouns of a product's title, the configurable part of the score.

The original uses a spaCy model. Extractors here:

- ``simple`` (default): word lists and suffixes for product titles; no dependencies;
- ``recorded``: every token that starts with a letter, as in the reference recordings;
- ``spacy`` or ``spacy:<model>``: the original's extractor; default model ``en_core_web_lg``.

Scores with different extractors are not comparable, so results record the extractor.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any, Final

Nouns = Callable[[str], tuple[str, ...]]
"""From a title to its nouns, in lower case, in order, with repeats."""

NOUNS: Final = ("simple", "recorded", "spacy")
SPACY_MODEL: Final = "en_core_web_lg"
_TITLES: Final = 8192

_TOKEN: Final = re.compile(r"\w+|[^\w\s]")
_WORD: Final = re.compile(r"[^\W\d_]\w*")
_FUNCTION: Final = """
a about above across after all also an and any are as at away back be been before behind below
beneath beside between beyond both but by can do does down during each either every few for from
get gets had has have he her hers him his how i if in inside into is it its it's just less like
made make makes many may me more most much must my near no nor not of off on onto only or other
our out outside over per plus s same she should so some such t than that the their them then there
these they this those through to too under until up upon us use used very via was we were what
when where which while who will with within without would x yet you your
"""
_ADJECTIVE: Final = """
absorbent active airtight all-in-one anti antique artificial authentic automatic basic best big
bitter black blue bold bright brown casual cheap chewy chic classic clean clear cold comfortable
comfy compact compatible complete cool cooling cordless cosy cozy creamy crisp crunchy cute daily
dark deep deluxe dense digital double dry dual durable easy eco edgy electric elegant essential
everyday extra fair fancy fast fat female fine firm fit fizzy flat flexible floral fluffy foldable
folding free fresh full fun funny gentle genuine giant golden good grand gray great green grey
handmade handy hard heavy herbal hidden high hot huge hydrating ideal indoor inner instant juicy
keto kosher large latest lazy lean light lightweight little long loose lovely low lower luxurious
luxury magnetic male manual matching matte mechanical medium mens micro mild mini modern
moisturizing multi narrow natural new nice non nourishing novel nutritious odd old open orange
organic original outdoor outer oval own pale perfect personal pink plain plush polished popular
portable practical premium pretty professional pure purple quick quiet rainy rapid raw ready real
rectangular red refreshing regular relaxing reliable removable resistant reusable rich rigid
robust round royal rustic safe salty scented sealed seamless sharp sheer shiny short silent silky
simple single sleek sleeveless slim slip-on slow small smart smoky smooth snug soft solid soothing
sour spare special spicy sporty square stable standard sticky stiff straight stretchy strong
sturdy stylish sunny super sweet swift tall tangy tart tasty thermal thick thin tight tiny top
tough traditional trendy triple unique universal unscented upper usda useful vegan vegetarian
vibrant vintage vivid warm washable waterproof white whitening wide wild wireless wooden woven
yellow young yummy zesty
"""
_NOUN: Final = """
airbed assembly belly bobsled bubbly butterfly cable dish doily dragonfly family feed finish fish
flatbed handful holly jelly jellyfish lily polish radish reed relish seabed seaweed seed shed sled
speed starfish steed supply swordfish syllable table trolley turntable vegetable watershed weed
wish
"""
"""Nouns with an ending from `_ENDINGS`."""
_ENDINGS: Final = ("able", "ed", "ful", "ible", "ish", "less", "ly", "like", "most", "ous", "proof")
"""Endings of adjectives, participles and adverbs."""
_FUNCTION_WORDS: Final = frozenset(_FUNCTION.split())
_ADJECTIVES: Final = frozenset(_ADJECTIVE.split())
_NOUNS: Final = frozenset(_NOUN.split())


def recorded_nouns(title: str) -> tuple[str, ...]:
    """Every token that starts with a letter."""
    return tuple(t.lower() for t in _TOKEN.findall(title) if t[0].isalpha())


def simple_nouns(title: str) -> tuple[str, ...]:
    """The words of a title without function words, adjectives, adverbs and participles.

    If no word remains, the last content word, since an English phrase ends with its head.
    """
    words = [word.lower() for word in _WORD.findall(title)]
    content = [word for word in words if word not in _FUNCTION_WORDS and len(word) > 1]
    nouns = tuple(word for word in content if not _modifier(word))
    return nouns or tuple(content[-1:])


def _modifier(word: str) -> bool:
    ends_so = len(word) > 4 and word.endswith(_ENDINGS) and word not in _NOUNS
    return ends_so or word in _ADJECTIVES


@cache
def noun_extractor(name: str = "simple") -> Nouns:
    """The extractor with this name. An extractor caches recent titles.

    Raises:
        ValueError: For an unknown name. The message lists the known names.
        ModuleNotFoundError: If spaCy or its model is missing. The message has the install command.
    """
    kind, _, model = name.partition(":")
    if name in ("simple", "recorded"):
        return lru_cache(_TITLES)(simple_nouns if name == "simple" else recorded_nouns)
    if kind == "spacy":
        return lru_cache(_TITLES)(_SpacyNouns(model or SPACY_MODEL))
    raise ValueError(f"unknown nouns {name!r}: choose {', '.join(NOUNS)} or spacy:<model>")


class _SpacyNouns:
    """The nouns of a spaCy model, with the tags of the original."""

    def __init__(self, model: str) -> None:
        try:
            import spacy

            self._parse: Any = spacy.load(model)
        except (ImportError, OSError) as error:
            raise ModuleNotFoundError(
                f"nouns 'spacy' need spaCy and its model {model!r}: pip install spacy, then python "
                f"-m spacy download {model}; or choose nouns 'simple'"
            ) from error

    def __call__(self, title: str) -> tuple[str, ...]:
        tags = ("PNOUN", "NOUN", "PROPN")
        return tuple(token.text.lower() for token in self._parse(title) if token.pos_ in tags)
