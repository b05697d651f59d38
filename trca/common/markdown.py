"""Markdown tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

_NEGATIVE_ZERO: Final = re.compile(r"^(\**)-(?=0(?:\.0*)?(?![\d.]))")


def markdown_table(
    head: Sequence[str], rows: Iterable[Sequence[object]], text_columns: int = 1
) -> str:
    """Returns a Markdown table that ends with a line break.

    A vertical bar in a cell is escaped, a line break becomes a space, and -0.00 becomes 0.00. The
    first ``text_columns`` are aligned left, the columns of numbers right.

    Raises:
        ValueError: If a row has another number of cells than the head.
    """
    lines = []
    for row in (head, *rows):
        if len(row) != len(head):
            raise ValueError(f"a row has {len(row)} cells, the head has {len(head)}: {row}")
        lines.append("".join(f"| {text} " if text else "| " for text in map(_text, row)) + "|\n")
    lines.insert(1, "|" + "---|" * text_columns + "---:|" * (len(head) - text_columns) + "\n")
    return "".join(lines)


def _text(cell: object) -> str:
    text = " ".join(str(cell).split("\n")).replace("|", "\\|")
    return _NEGATIVE_ZERO.sub(r"\1", text)
