"""A lock file that one process holds; a killed process leaves no lock."""

from __future__ import annotations

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


class HeldError(RuntimeError):
    """Another process holds the lock; the text is its pid and machine, ``?`` where not told."""


def holder() -> str:
    """This process as the lock file names it: its pid and machine."""
    return f"{os.getpid()} on {socket.gethostname()}"


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Holds a lock file, made when it is not there.

    Raises:
        HeldError: When another process, or another place of this one, holds it.
        OSError: When it cannot be written to.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise HeldError(os.read(descriptor, 200).decode() or "?") from None
        with suppress(OSError):  # a full disk does not stop the lock
            os.ftruncate(descriptor, 0)
            os.write(descriptor, holder().encode())
        yield
    finally:
        os.close(descriptor)
