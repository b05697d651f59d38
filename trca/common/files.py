"""Atomic writes of files and folders, locks, versions and checksums."""

from __future__ import annotations

import fcntl
import hashlib
import json
import math
import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any


@contextmanager
def writing(path: Path, binary: bool = False) -> Iterator[IO[Any]]:
    """Opens a file for an atomic write: the file changes at the end of the block, or not.

    Raises:
        FileNotFoundError: If the folder is missing.
    """
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{path}: there is no folder {path.parent}: create it first")
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with draft.open("wb") if binary else draft.open("w", encoding="utf-8") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Writes a text file atomically."""
    with writing(path) as file:
        file.write(text)


def write_json(path: Path, data: Any) -> None:
    """Writes a JSON file atomically. Infinite numbers and NaN become null."""
    write_text(path, json.dumps(_finite(data), indent=1, allow_nan=False) + "\n")


def _finite(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_finite(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data


@contextmanager
def writing_folder(target: Path) -> Iterator[Path]:
    """Yields a draft folder, and renames it to ``target`` after flushing its files to disk."""
    draft = target.with_name(f".{target.name}.part")
    shutil.rmtree(draft, ignore_errors=True)
    try:
        draft.mkdir()
        yield draft
        for path in [*draft.rglob("*"), draft]:
            _flush(path)
        shutil.rmtree(target, ignore_errors=True)
        draft.rename(target)
        _flush(target.parent)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def point_link(link: Path, name: str) -> None:
    """Creates or atomically changes a link to a folder ``name`` in the link's folder."""
    draft = link.with_name(f".{link.name}.link")
    draft.unlink(missing_ok=True)
    draft.symlink_to(name, target_is_directory=True)
    draft.replace(link)


def sha256(path: Path) -> str:
    """Returns the SHA-256 of a file in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


FileVersion = tuple[str, int, int]
"""Absolute path, size and modification time of a file."""


def versions(path: Path) -> tuple[FileVersion, ...]:
    """Returns the versions of a file, or of all files in a folder; empty for a missing path.

    Every cache of a user's files has the versions in its keys, so that a process reads a changed
    file again, and so that a relative path means another file in another working directory.
    """
    path = path.resolve()
    files = sorted(path.rglob("*")) if path.is_dir() else [path] if path.exists() else []
    stats = [(str(file), file.stat()) for file in files]
    return tuple((name, stat.st_size, stat.st_mtime_ns) for name, stat in stats)


def find(path: str | Path) -> Path:
    """Resolves a path that may be relative to the working directory at the start of the program.

    Ray Tune changes the working directory of a trial, and stores the original directory in an
    environment variable.
    """
    path = Path(path).expanduser()
    start = os.environ.get("TUNE_ORIG_WORKING_DIR")
    if start and not path.is_absolute() and not path.exists():
        return Path(start) / path
    return path


class HeldError(RuntimeError):
    """Another process holds the lock. The text is its pid and machine, or ``?`` if unknown."""


def holder() -> str:
    """Returns pid and machine of this process, the text in the lock file."""
    return f"{os.getpid()} on {socket.gethostname()}"


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Holds a lock file, and creates it if needed. A killed process leaves no lock.

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
