"""Files of JSON lines. A kill or a full disk cuts off at most the last line."""

from __future__ import annotations

import gzip
import json
import lzma
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, cast


def append_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Adds a line for each row; creates the file if needed. NumPy numbers are written as floats.

    The lines are on disk when the function returns.
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
    """The rows of a file, without damaged lines; empty if the file does not exist."""
    text = path.read_text("utf-8", errors="replace") if path.exists() else ""
    rows = []
    for line in text.split("\n"):
        with suppress(json.JSONDecodeError):
            row = json.loads(line)
            if isinstance(row, dict):
                rows.append(row)
    return rows


def numbered_rows(
    path: Path, refusal: Callable[[int, str], Exception]
) -> Iterator[tuple[int, Any]]:
    """Yields number, from 1, and value of each line of JSON; reads ``.gz`` and ``.xz``, too.

    ``refusal`` makes the error for a line, from its number and the problem: the line is not JSON,
    or the file is broken or truncated. Raises `FileNotFoundError` if the file does not exist.
    """
    number = 0
    try:
        with path.open("rb") as file:
            for number, line in enumerate(decompressed(file, path.suffix), 1):
                try:
                    row = json.loads(line)
                except (ValueError, RecursionError) as error:
                    raise refusal(number, f"this is not JSON ({error})") from None
                yield number, row
    except FileNotFoundError:
        raise
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        problem = f"the file is broken or truncated ({error}): fetch it again"
        raise refusal(number + 1, problem) from None


def decompressed(file: BinaryIO, suffix: str) -> Iterable[bytes]:
    """Returns the lines of an open file, decompressed by its suffix ``.gz`` or ``.xz``."""
    if suffix == ".gz":
        return cast("Iterable[bytes]", gzip.GzipFile(fileobj=file))
    return lzma.LZMAFile(file) if suffix == ".xz" else file
