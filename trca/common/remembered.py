"""A cache with bounded memory for functions of a text: results of long texts are not cached.

Agents write texts of any length, so a limit on the number of entries does not bound the memory.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import TypeVar

Result = TypeVar("Result")


def remembered(
    entries: int, longest: int
) -> Callable[[Callable[[str], Result]], Callable[[str], Result]]:
    """Caches the results for the last texts, at most ``entries * longest`` characters of text.

    Args:
        entries: Number of cached results.
        longest: Largest number of characters of a text with a cached result.
    """

    def decorate(function: Callable[[str], Result]) -> Callable[[str], Result]:
        kept = lru_cache(maxsize=entries)(function)

        @wraps(function)
        def call(text: str) -> Result:
            return kept(text) if len(text) <= longest else function(text)

        return call

    return decorate
