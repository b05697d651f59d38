"""Tasks out of other libraries' data, which know no splits: every tenth is one of ``test``."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

_T = TypeVar("_T")


def read_rows(path: str | Path) -> list[dict[str, Any]]:
    """The objects of a file of JSON lines.

    Raises:
        ValueError: Names the line that is no object.
    """
    found = []
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: {error}") from None
        if not isinstance(row, dict):
            raise ValueError(f"{path}, line {number}: {line[:80]!r} is no object")
        found.append(row)
    return found


def part_of_split(items: Iterable[_T], split: str, source: str) -> dict[str, _T]:
    """The items of a split by their task ids, ``task-0`` and so on.

    Args:
        items: All of them.
        split: ``test`` for every tenth, ``train`` for the others.
        source: What they are of, for the error.

    Raises:
        ValueError: For another split, or one without items.
    """
    if split not in ("train", "test"):
        raise ValueError(f"unknown split {split!r} of {source}: choose train or test")
    found = {
        f"task-{n}": item for n, item in enumerate(items) if (n % 10 == 0) == (split == "test")
    }
    if not found:
        raise ValueError(f"{source} has no tasks of the split {split}: every tenth is of test")
    return found
