"""Finds terms in a memory-mapped list, in logarithmic time."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Final

import numpy as np
from numpy.typing import NDArray

_MARKS: Final = 4096
"""Terms that are held in memory, spread evenly; the search begins among them."""


def encoded(text: str) -> bytes:
    """UTF-8; half a surrogate pair, which JSON can bring, becomes three bytes as well."""
    return text.encode("utf-8", "surrogatepass")


class Vocabulary:
    """Terms in order, numbered from 0.

    Terms are compared where they lie, so that opening a vocabulary of millions takes no time and
    almost no memory of its own.
    """

    def __init__(self, terms: NDArray[np.uint8], ends: NDArray[np.int64]) -> None:
        """Opens a vocabulary.

        Args:
            terms: The terms in UTF-8, in order, one after the other.
            ends: Where each ends, shape ``(terms,)``.
        """
        self._terms, self._ends = terms.data, ends.data
        self._stride = max(1, len(ends) // _MARKS)
        self._marks = [self._at(number) for number in range(0, len(ends), self._stride)]

    def __len__(self) -> int:
        """The number of terms."""
        return len(self._ends)

    def find(self, term: str) -> int | None:
        """The number of a term; None when it is not there."""
        wanted = encoded(term)
        mark = bisect_right(self._marks, wanted)
        if not mark:
            return None
        first, end = (mark - 1) * self._stride, min(mark * self._stride, len(self))
        number = first + bisect_left(range(first, end), wanted, key=self._at)
        return number if number < end and self._at(number) == wanted else None

    def _at(self, number: int) -> bytes:
        start = self._ends[number - 1] if number else 0
        return bytes(self._terms[start : self._ends[number]])
