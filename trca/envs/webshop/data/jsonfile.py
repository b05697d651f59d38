"""Reads large JSON files a value at a time and says where they are broken.

For example::

    for place, row in values(Path("items_shuffle.json")):
        ...  # place reads "item 1", "item 2", ... or "line 1", ... of a .jsonl file
"""

from __future__ import annotations

import gzip
import io
import json
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final

_CHUNK: Final = 1 << 20
_LONGEST_VALUE: Final = 64 << 20
_decode = json.JSONDecoder().raw_decode

Progress = Callable[[int], object]
"""Receives the number of bytes read so far, as they are in the file."""


class DataFileError(ValueError):
    """A data file cannot be used; the message names the file, the place and what to do.

    Attributes:
        path: The file.
    """

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path = path


def values(path: Path, progress: Progress | None = None) -> Iterator[tuple[str, Any]]:
    """The values of a JSON array, or of a file with one value a line (``.jsonl``), in order.

    Either may be compressed (``.gz``). Memory is that of one value.

    Yields:
        The value's place in words, counted from 1, and the value.

    Raises:
        DataFileError: When the file is missing, is no such file, is broken or ends too soon.
    """
    lines = path.name.removesuffix(".gz").endswith(".jsonl")
    with _reporting(path), path.open("rb") as raw:
        text = _text(path, raw)
        if lines:
            yield from _lines(path, raw, text, progress)
        else:
            reader = _Reader(path, raw, text, progress)
            for number in reader.members("[", "]"):
                yield f"item {number}", reader.value(f"item {number}")


def members(path: Path, progress: Progress | None = None) -> Iterator[tuple[str, Any]]:
    """The members of a JSON object, in order, as `values` reads an array.

    Yields:
        The key and the value.

    Raises:
        DataFileError: As `values`.
    """
    with _reporting(path), path.open("rb") as raw:
        reader = _Reader(path, raw, _text(path, raw), progress)
        for number in reader.members("{", "}"):
            key = reader.value(f"key {number}")
            if not isinstance(key, str):
                raise reader.broken(f"key {number}", "it is not a text")
            if reader.next() != ":":
                raise reader.broken(f"entry {key!r}", "there is no ':' after its key")
            reader.skip()
            yield key, reader.value(f"entry {key!r}")


class _reporting:  # noqa: N801
    """Turns what decompression, decoding and the file system raise into a `DataFileError`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        match error:
            case EOFError():
                problem = "the compressed file ends too soon: it is half downloaded; fetch it again"
            case gzip.BadGzipFile() | zlib.error():
                problem = f"the compressed file is corrupt ({error}): fetch it again"
            case UnicodeDecodeError():
                problem = f"it is not UTF-8 text ({error.reason}): it is corrupt; fetch it again"
            case OSError():
                problem = f"it cannot be read: {error.strerror or error}"
            case _:
                return
        raise DataFileError(self.path, problem) from error


def _text(path: Path, raw: BinaryIO) -> io.TextIOWrapper:
    stream = gzip.GzipFile(fileobj=raw) if path.name.endswith(".gz") else raw
    return io.TextIOWrapper(stream, encoding="utf-8-sig")


def _lines(
    path: Path, raw: BinaryIO, text: io.TextIOWrapper, progress: Progress | None
) -> Iterator[tuple[str, Any]]:
    for number, line in enumerate(text, 1):
        if line.isspace():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise _broken(path, f"line {number}", *_cause(error, 0)) from None
        if progress is not None:
            progress(raw.tell())
        yield f"line {number}", value


class _Reader:
    """A cursor over the text of one JSON value that is too large to hold."""

    def __init__(
        self, path: Path, raw: BinaryIO, text: io.TextIOWrapper, progress: Progress | None
    ) -> None:
        self.path, self.raw, self.text, self.progress = path, raw, text, progress
        self.buffer, self.at, self.passed = "", 0, 0

    def members(self, opening: str, closing: str) -> Iterator[int]:
        """Stands before each member of the array or object in turn; yields its number from 1."""
        if (found := self.next()) != opening:
            kind = "array" if opening == "[" else "object"
            web = "; it is a web page, which hosts send in place of a file" if found == "<" else ""
            raise DataFileError(
                self.path, f"it is not a JSON {kind}: it starts with {found!r}{web}; fetch it again"
            )
        self.skip()
        number = 0
        found = self.next()
        while found != closing:
            number += 1
            yield number
            found = self.next()
            if found == ",":
                self.skip()
                self.next()
            elif found != closing:
                raise self.broken(f"the end of item {number}", "no comma follows")
        self.skip()
        if rest := self.next():
            raise self.broken("the end", f"{rest!r} follows the closing {closing!r}")

    def next(self) -> str:
        """The next character that is not white space, without passing it; "" at the end."""
        while True:
            while self.at < len(self.buffer):
                if not self.buffer[self.at].isspace():
                    return self.buffer[self.at]
                self.at += 1
            if not self._more():
                return ""

    def skip(self) -> None:
        """Passes one character."""
        self.at += 1

    def value(self, place: str) -> Any:
        """Reads one value and passes it.

        Raises:
            DataFileError: When there is none; it names the place.
        """
        self.next()
        while True:
            try:
                value, end = _decode(self.buffer, self.at)
            except (ValueError, RecursionError) as error:
                problem, at = _cause(error, self.at)
                at += self.passed
                if len(self.buffer) - self.at > _LONGEST_VALUE or not self._more():
                    raise self.broken(place, problem, at) from None
            else:
                if end < len(self.buffer) or not self._more():  # a number may go on
                    self.at = min(end, len(self.buffer))
                    return value

    def broken(self, place: str, problem: str, at: int | None = None) -> DataFileError:
        """The error for a broken place; None for where the cursor stands."""
        at = self.passed + self.at if at is None else at
        return _broken(self.path, place, problem, at)

    def _more(self) -> bool:
        chunk = self.text.read(_CHUNK)
        self.passed += self.at
        self.buffer, self.at = self.buffer[self.at :] + chunk, 0
        if self.progress is not None:
            self.progress(self.raw.tell())
        return bool(chunk)


def _cause(error: ValueError | RecursionError, start: int) -> tuple[str, int]:
    """What decoding complains of, and at which character, from 0."""
    if isinstance(error, json.JSONDecodeError):
        return error.msg, error.pos
    return str(error), start


def _broken(path: Path, place: str, problem: str, at: int) -> DataFileError:
    return DataFileError(
        path,
        f"{place} is broken at character {at + 1:,} ({problem}): the file is corrupt or half"
        " downloaded; fetch it again",
    )
