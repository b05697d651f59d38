"""Splits for data of external libraries without splits: every tenth task belongs to ``test``."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

_T = TypeVar("_T")


def read_rows(path: str | Path) -> list[dict[str, Any]]:
    """The objects in a JSON-lines file; see `numbered_rows`."""
    return [row for _, row in numbered_rows(path)]


def numbered_rows(path: str | Path) -> list[tuple[int, dict[str, Any]]]:
    """The objects in a JSON-lines file, each with the number of its line from 1.

    Blank lines are left out.

    Raises:
        ValueError: If a line is not a JSON object. The message names the line.
    """
    rows = []
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{path}, line {number}: {error}") from None
        if not isinstance(row, dict):
            raise ValueError(f"{path}, line {number}: {line[:80]!r} is not an object")
        rows.append((number, row))
    return rows


def part_of_split(items: Iterable[_T], split: str, source: str) -> dict[str, _T]:
    """The items of a split by task id, ``task-0`` and so on.

    Args:
        items: All items.
        split: ``test`` for every tenth item, ``train`` for the remaining items.
        source: Name of the source, for error messages.

    Raises:
        ValueError: For an unknown split or a split without items.
    """
    if split not in ("train", "test"):
        raise ValueError(f"unknown split {split!r} of {source}: choose train or test")
    items_by_id = {
        f"task-{n}": item for n, item in enumerate(items) if (n % 10 == 0) == (split == "test")
    }
    if not items_by_id:
        raise ValueError(f"{source} has no tasks in split {split!r}: every tenth task is in test")
    return items_by_id
