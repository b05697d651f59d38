"""Document lengths in Lucene's one-byte code: exact to 39, then four significant bits."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

_EXACT: Final = 24
"""Lengths below this value are their own code. For larger lengths, the code depends on the excess.
"""


def _decoded(code: int) -> int:
    """`SmallFloat.byte4ToInt` of Lucene."""
    if code < _EXACT:
        return code
    mantissa, shift = (code - _EXACT) & 7, ((code - _EXACT) >> 3) - 1
    return _EXACT + (mantissa if shift < 0 else (mantissa | 8) << shift)


LENGTHS: Final = np.array([_decoded(code) for code in range(256)], dtype=np.int64)
"""The length of each code, increasing."""


def length_codes(lengths: NDArray[np.integer]) -> NDArray[np.uint8]:
    """The code of the largest length in `LENGTHS` that does not exceed each length."""
    return (np.searchsorted(LENGTHS, lengths, side="right") - 1).astype(np.uint8)
