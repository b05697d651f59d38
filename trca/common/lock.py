"""A lock file for one process. A killed process leaves no lock."""

from __future__ import annotations

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


class HeldError(RuntimeError):
    """Another process holds the lock. The text is its pid and machine, or ``?`` if unknown."""


def holder() -> str:
    """Returns pid and machine of this process, the text in the lock file."""
    return f"{os.getpid()} on {socket.gethostname()}"


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Holds a lock file, and creates it if needed.

    Raises:
        HeldError: If another process, or another part of this process, holds the lock.
        OSError: If the file is not writable.
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
