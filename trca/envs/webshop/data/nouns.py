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

from trca.common.strict_yaml import packaged

Nouns = Callable[[str], tuple[str, ...]]
"""From a title to its nouns, in lower case, in order, with repeats."""

NOUNS: Final = ("simple", "recorded", "spacy")
SPACY_MODEL: Final = "en_core_web_lg"
_TITLES: Final = 8192

_TOKEN: Final = re.compile(r"\w+|[^\w\s]")
_WORD: Final = re.compile(r"[^\W\d_]\w*")
_ENDINGS: Final = ("able", "ed", "ful", "ible", "ish", "less", "ly", "like", "most", "ous", "proof")
"""Endings of adjectives, participles and adverbs."""


@cache
def _words(kind: str) -> frozenset[str]:
    """Words of a kind in ``nouns.yaml``; ``nouns`` are the nouns with an ending of `_ENDINGS`."""
    return frozenset(packaged(__package__, "nouns.yaml")[kind])


def recorded_nouns(title: str) -> tuple[str, ...]:
    """Every token that starts with a letter."""
    return tuple(t.lower() for t in _TOKEN.findall(title) if t[0].isalpha())


def simple_nouns(title: str) -> tuple[str, ...]:
    """The words of a title without function words, adjectives, adverbs and participles.

    If no word remains, the last content word, since an English phrase ends with its head.
    """
    words = [word.lower() for word in _WORD.findall(title)]
    content = [word for word in words if word not in _words("function") and len(word) > 1]
    nouns = tuple(
        word
        for word in content
        if word not in _words("adjectives")
        and (len(word) <= 4 or not word.endswith(_ENDINGS) or word in _words("nouns"))
    )
    return nouns or tuple(content[-1:])


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
