"""Markdown tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def markdown_table(
    head: Sequence[str], rows: Iterable[Sequence[object]], text_columns: int = 1
) -> str:
    """Returns a Markdown table that ends with a line break.

    A vertical bar in a cell is escaped, and a line break becomes a space.

    Args:
        head: Names of the columns.
        rows: One sequence of cells per row.
        text_columns: Number of first columns that are aligned left. The remaining columns hold
            numbers and are aligned right.

    Raises:
        ValueError: If a row has another number of cells than the head.
    """
    numbers = len(head) - text_columns
    lines = [_line(head), "|" + "---|" * text_columns + "---:|" * numbers]
    for row in rows:
        if len(row) != len(head):
            raise ValueError(f"a row has {len(row)} cells, the head has {len(head)}: {row}")
        lines.append(_line(row))
    return "\n".join(lines) + "\n"


def _line(cells: Sequence[object]) -> str:
    texts = (" ".join(str(cell).split("\n")).replace("|", "\\|") for cell in cells)
    return "|" + "|".join(f" {text} " if text else " " for text in texts) + "|"
