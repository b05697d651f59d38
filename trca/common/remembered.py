"""A cache for functions of one text whose memory has a bound: results of long texts are not kept.

Agents write texts of any length, so the number of entries alone bounds nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import TypeVar

Result = TypeVar("Result")


def remembered(
    entries: int, longest: int
) -> Callable[[Callable[[str], Result]], Callable[[str], Result]]:
    """Keeps the results for the texts used last: at most ``entries * longest`` characters of them.

    Args:
        entries: How many results to keep.
        longest: Characters of the longest text whose result is kept.
    """

    def decorate(function: Callable[[str], Result]) -> Callable[[str], Result]:
        kept = lru_cache(maxsize=entries)(function)

        @wraps(function)
        def call(text: str) -> Result:
            return kept(text) if len(text) <= longest else function(text)

        return call

    return decorate
