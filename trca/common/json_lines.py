"""Files of JSON lines. A kill or a full disk cuts off at most the last line."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any


def append_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Adds a line for each row.

    The lines are on disk when the function returns. NumPy numbers are written as floats.

    Args:
        path: The file, which may not exist yet.
        rows: The rows.
    """
    with path.open("ab+") as file:
        if file.tell():
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                file.write(b"\n")  # ends a line that was cut off
        file.writelines(f"{json.dumps(row, default=float)}\n".encode() for row in rows)
        file.flush()
        os.fsync(file.fileno())


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The rows of a file, without lines that were cut off; empty if the file does not exist."""
    text = path.read_text("utf-8", errors="replace") if path.exists() else ""
    rows = []
    for line in text.split("\n"):
        with suppress(json.JSONDecodeError):
            rows.append(json.loads(line))
    return rows
