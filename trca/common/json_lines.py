"""Files of JSON lines that grow: a kill or a full disk costs what was being added and no more."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any


def append_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Adds a line for each row; they are on disk when this returns. Numbers of NumPy are floats."""
    with path.open("ab+") as file:
        if file.tell():
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                file.write(b"\n")  # ends a line that was cut off
        file.writelines(f"{json.dumps(row, default=float)}\n".encode() for row in rows)
        file.flush()
        os.fsync(file.fileno())


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The rows of a file, without those that were cut off; none where there is no file."""
    text = path.read_text("utf-8", errors="replace") if path.exists() else ""
    rows = []
    for line in text.split("\n"):
        with suppress(json.JSONDecodeError):
            rows.append(json.loads(line))
    return rows


class Lines:
    """The rows of a file, which grow."""

    def __init__(self, path: Path) -> None:
        """Reads the file, without lines that were cut off."""
        self._path = path
        self._rows = read_lines(path)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, number: int) -> dict[str, Any]:
        return self._rows[number]

    def append(self, row: Mapping[str, Any]) -> None:
        """Adds a line; it is on disk when this returns."""
        self._rows.append(dict(row))
        append_lines(self._path, [row])
