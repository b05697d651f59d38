"""How every adapter writes its memory line: one short line, whatever the agent wrote."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from trca.common.short_line import short_line

LONGEST_LINE: Final = 2000
"""Characters of a memory line at most."""
LONGEST_QUOTE: Final = 200
"""Characters at most of a text that the agent wrote, such as a query."""


def memory_line_of(parts: Iterable[str]) -> str:
    """Joins sentences to a memory line."""
    return short_line(" ".join(parts), LONGEST_LINE)


def quoted(text: str) -> str:
    """A text that the agent wrote, as a memory line shows it."""
    return short_line(text, LONGEST_QUOTE)
