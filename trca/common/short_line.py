"""Any value as one short line, for memory lines and error messages."""

from __future__ import annotations


def short_line(value: object, longest: int = 120) -> str:
    """A value as text on one line: single spaces, and ``...`` where it is cut.

    Args:
        value: Anything.
        longest: Characters of the line at most; 3 or more.
    """
    text = " ".join(str(value).split())
    return text if len(text) <= longest else f"{text[: longest - 3]}..."
