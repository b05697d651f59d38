"""Reads large JSON files value by value, and reports the place of an error."""

from __future__ import annotations

import gzip
import io
import json
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final

from trca.common.errors import DataError

_CHUNK: Final = 1 << 20
_LONGEST_VALUE: Final = 64 << 20
_decode = json.JSONDecoder().raw_decode

Progress = Callable[[int], object]
"""Receives the number of bytes read so far. In a compressed file, compressed bytes count."""


class DataFileError(DataError, ValueError):
    """A data file is unusable. The message names the file, the place and the fix."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"{path}: {problem}", path, problem)
        self.path = path


def values(path: Path, progress: Progress | None = None) -> Iterator[tuple[str, Any]]:
    """Yields the values of a JSON array, or of a file with one value per line (``.jsonl``).

    Each value comes with its place, such as ``item 1`` or ``line 1``. Files may be compressed
    (``.gz``). Only one value is in memory at a time. An unusable file is a DataFileError.
    """
    with _opened(path, progress) as reader:
        if path.name.removesuffix(".gz").endswith(".jsonl"):
            for number, line in enumerate(reader.text, 1):
                if line.isspace():
                    continue
                try:
                    value = json.loads(line)
                except (ValueError, RecursionError) as error:
                    raise reader.broken(f"line {number}", error) from None
                reader.progress(reader.raw.tell())
                yield f"line {number}", value
        else:
            for number in reader.members("[", "]"):
                yield f"item {number}", reader.value(f"item {number}")


def members(path: Path) -> Iterator[tuple[str, Any]]:
    """Yields keys and values of a JSON object in order; see `values`."""
    with _opened(path) as reader:
        for number in reader.members("{", "}"):
            key = reader.value(f"key {number}")
            if not isinstance(key, str):
                raise reader.broken(f"key {number}", "it is not a text")
            if reader.next() != ":":
                raise reader.broken(f"entry {key!r}", "there is no ':' after its key")
            reader.at += 1
            yield key, reader.value(f"entry {key!r}")


@contextmanager
def _opened(path: Path, progress: Progress | None = None) -> Iterator[_Reader]:
    """Opens a file; errors of decompression, decoding and the file system are DataFileErrors."""
    try:
        with path.open("rb") as raw:
            stream = gzip.GzipFile(fileobj=raw) if path.name.endswith(".gz") else raw
            yield _Reader(path, raw, io.TextIOWrapper(stream, encoding="utf-8-sig"), progress)
        return
    except EOFError:
        problem = "the compressed file ends too soon: it is half downloaded; fetch it again"
    except (gzip.BadGzipFile, zlib.error) as error:
        problem = f"the compressed file is corrupt ({error}): fetch it again"
    except UnicodeDecodeError as error:
        problem = f"it is not UTF-8 text ({error.reason}): it is corrupt; fetch it again"
    except OSError as error:
        problem = f"it cannot be read: {error.strerror or error}"
    raise DataFileError(path, problem)


class _Reader:
    """A cursor over the text of one JSON value that does not fit into memory."""

    def __init__(
        self, path: Path, raw: BinaryIO, text: io.TextIOWrapper, progress: Progress | None
    ) -> None:
        self.path, self.raw, self.text = path, raw, text
        self.progress: Progress = progress or (lambda done: None)
        self.buffer, self.at, self.passed = "", 0, 0

    def members(self, opening: str, closing: str) -> Iterator[int]:
        """Moves to each member of the array or object in turn; yields its number from 1."""
        if (sign := self.next()) != opening:
            kind = "array" if opening == "[" else "object"
            hint = "; it is a web page, which hosts send in place of a file" if sign == "<" else ""
            raise DataFileError(
                self.path, f"it is not a JSON {kind}: it starts with {sign!r}{hint}; fetch it again"
            )
        self.at += 1
        number = 0
        sign = self.next()
        while sign != closing:
            number += 1
            yield number
            sign = self.next()
            if sign == ",":
                self.at += 1
                self.next()
            elif sign != closing:
                raise self.broken(f"the end of item {number}", "no comma follows")
        self.at += 1
        if rest := self.next():
            raise self.broken("the end", f"{rest!r} follows the closing {closing!r}")

    def next(self) -> str:
        """The next character that is not white space, without consuming it; "" at the end."""
        while True:
            while self.at < len(self.buffer):
                if not self.buffer[self.at].isspace():
                    return self.buffer[self.at]
                self.at += 1
            if not self._more():
                return ""

    def value(self, place: str) -> Any:
        """Reads and consumes one value."""
        self.next()
        while True:
            try:
                value, end = _decode(self.buffer, self.at)
            except (ValueError, RecursionError) as error:
                broken = self.broken(place, error)
                if len(self.buffer) - self.at > _LONGEST_VALUE or not self._more():
                    raise broken from None
            else:
                if end < len(self.buffer) or not self._more():  # a number may continue
                    self.at = min(end, len(self.buffer))
                    return value

    def broken(self, place: str, problem: str | Exception) -> DataFileError:
        """The error for a broken place, at the decoder's position or else at the cursor."""
        at = self.at
        if isinstance(problem, json.JSONDecodeError):
            at, problem = problem.pos, problem.msg
        return DataFileError(
            self.path,
            f"{place} is broken at character {self.passed + at + 1:,} ({problem}): the file is"
            " corrupt or half downloaded; fetch it again",
        )

    def _more(self) -> bool:
        chunk = self.text.read(_CHUNK)
        self.passed += self.at
        self.buffer, self.at = self.buffer[self.at :] + chunk, 0
        self.progress(self.raw.tell())
        return bool(chunk)
