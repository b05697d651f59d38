"""Errors and other values on one line of plain text."""

from __future__ import annotations

import errno
import os
import re
from typing import Any, Final

_ANSI: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_LONGEST: Final = 600
_FULL: Final = tuple(map(os.strerror, (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)))


class DataError(Exception):
    """An error of data that reads the same in another process."""

    def __init__(self, message: str, *arguments: Any) -> None:
        """Takes the message, and the arguments of the subclass, which make the error again."""
        super().__init__(message)
        self._arguments = arguments

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._arguments


def words(error: BaseException) -> str:
    """Returns an error as one line of plain text, with its notes.

    For an error that Ray wraps, the line describes the original error. Messages that are written
    for people appear without the type. All errors of a full disk become the same message.
    """
    cause = getattr(error, "cause", None)
    if isinstance(cause, BaseException):
        return words(cause)
    text = _ANSI.sub("", str(error)).strip()
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if full := [each for each in _FULL if each in text]:
        line = f"the disk is full or its quota is reached ({full[0]}): free space there"
    elif not lines:
        line = type(error).__name__
    elif len(lines) > 1 and ("Traceback" in text or "ray::" in text):
        line = lines[-1][:_LONGEST]  # the last line of a traceback is the error
    else:
        line = " ".join(lines)[:_LONGEST]
        if not isinstance(error, ValueError | RuntimeError | OSError):
            line = f"{type(error).__name__}: {line}"
    return " ".join([line, *notes(error)])


def first_line(error: BaseException) -> str:
    """Returns the first line of an error's message; the name of its type if there is none."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def notes(error: BaseException) -> list[str]:
    """The notes of an error in brackets, each on one line; see `BaseException.add_note`."""
    cause = getattr(error, "cause", None)
    if isinstance(cause, BaseException):
        return notes(cause)
    return [f"({' '.join(note.split())})" for note in getattr(error, "__notes__", ())]


def short_line(value: object, longest: int = 120) -> str:
    """Returns a value as text on one line, of at most ``longest`` characters.

    White space becomes single spaces, and a text that is cut ends with ``...``.
    """
    text = " ".join(str(value).split())
    return text if len(text) <= longest else f"{text[: longest - 3]}..."
