"""Helpers for memory lines: one short line, whatever the agent wrote."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from trca.common.short_line import short_line

LONGEST_LINE: Final = 2000
"""Largest number of characters of a memory line."""
LONGEST_QUOTE: Final = 200
"""Largest number of characters of a quoted text of the agent, such as a query."""


def memory_line_of(parts: Iterable[str]) -> str:
    """Joins sentences into one memory line of at most `LONGEST_LINE` characters."""
    return short_line(" ".join(parts), LONGEST_LINE)


def quoted(text: str) -> str:
    """Shortens a text of the agent to one line of at most `LONGEST_QUOTE` characters."""
    return short_line(text, LONGEST_QUOTE)
