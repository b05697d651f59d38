"""Short texts of one line, for memory lines and error messages."""

from __future__ import annotations


def short_line(value: object, longest: int = 120) -> str:
    """Returns a value as text on one line, with single spaces, and ``...`` at the end of a cut.

    Args:
        value: Any value.
        longest: Largest number of characters, at least 3.
    """
    text = " ".join(str(value).split())
    return text if len(text) <= longest else f"{text[: longest - 3]}..."
