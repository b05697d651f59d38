"""Finds terms in a memory-mapped list, in logarithmic time."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Final

import numpy as np
from numpy.typing import NDArray

_MARKS: Final = 4096
"""Number of terms in memory, at equal distances; a search starts with these terms."""


def encoded(text: str) -> bytes:
    """The text in UTF-8. An unpaired surrogate, which JSON may contain, becomes three bytes."""
    return text.encode("utf-8", "surrogatepass")


class Vocabulary:
    """Sorted terms, numbered from 0.

    Terms are compared in place, so opening a vocabulary of millions takes no time and little
    memory.
    """

    def __init__(self, terms: NDArray[np.uint8], ends: NDArray[np.int64]) -> None:
        """Opens a vocabulary.

        Args:
            terms: The terms in UTF-8, in order, concatenated.
            ends: End of each term, shape ``(terms,)``.
        """
        self._terms, self._ends = terms.data, ends.data
        self._stride = max(1, len(ends) // _MARKS)
        self._marks = [self._at(number) for number in range(0, len(ends), self._stride)]

    def __len__(self) -> int:
        """The number of terms."""
        return len(self._ends)

    def find(self, term: str) -> int | None:
        """The number of a term; None for an unknown term."""
        key = encoded(term)
        mark = bisect_right(self._marks, key)
        if not mark:
            return None
        first, end = (mark - 1) * self._stride, min(mark * self._stride, len(self))
        number = first + bisect_left(range(first, end), key, key=self._at)
        return number if number < end and self._at(number) == key else None

    def _at(self, number: int) -> bytes:
        start = self._ends[number - 1] if number else 0
        return bytes(self._terms[start : self._ends[number]])
