"""Lucene's English analyser: Unicode words, no possessives, lower case, no stopwords, stems.

    >>> lucene_tokens("The cats' 2,500 Greek-style U.S. Mo's")
    ['cat', '2,500', 'greek', 'style', 'u.', 'mo']

These are Anserini's default filters: `StandardTokenizer`, `EnglishPossessiveFilter`,
`LowerCaseFilter`, `StopFilter` and `PorterStemFilter`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final

from trca.envs.retrieval.porter import stem
from trca.envs.retrieval.words import words

STOPWORDS: Final = frozenset(
    (
        *("a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is"),
        *("it", "no", "not", "of", "on", "or", "such", "that", "the", "their", "then", "there"),
        *("these", "they", "this", "to", "was", "will", "with"),
    )
)

_LONGEST_KEPT: Final = 32
"""Characters of the longest cached chunk. The limit bounds the cache, since agents may write any
length."""
_NARROW_SPACE: Final = "\u202f"
"""The only space that Unicode permits inside a word."""


def lucene_tokenizer(entries: int) -> Callable[[str], list[str]]:
    """A function from a text to its terms, in order, with repeats.

    Args:
        entries: Size of the cache, in words. Texts repeat most of their words.
    """
    kept_terms = lru_cache(maxsize=entries)(_terms)

    def tokens(text: str) -> list[str]:
        chunks = text.split() if _NARROW_SPACE not in text else text.split(" ")
        return [
            term
            for chunk in chunks
            for term in (kept_terms if len(chunk) <= _LONGEST_KEPT else _terms)(chunk)
        ]

    return tokens


def _terms(chunk: str) -> tuple[str, ...]:
    """The terms of the characters between two spaces."""
    lowered = (_lower(_without_possessive(word)) for word in words(chunk))
    return tuple(stem(word) for word in lowered if word not in STOPWORDS)


lucene_tokens: Final = lucene_tokenizer(1 << 14)
"""The terms of a query. The cache is small, since agents may write any word."""


def _without_possessive(word: str) -> str:
    return word[:-2] if word[-1] in "sS" and word[-2:-1] in ("'", "’", "\uff07") else word


def _lower(word: str) -> str:
    """Lower case letter by letter, as in Java: no final sigma, one letter for one letter."""
    if word.isascii():
        return word.lower()
    return "".join(low if len(low := letter.lower()) == 1 else "i" for letter in word)
