"""Unpacks archives of official games, whole or not at all, and nothing but the games."""

from __future__ import annotations

import hashlib
import json
import lzma
import os
import shutil
import sys
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO, BinaryIO

from filelock import FileLock
from platformdirs import user_cache_path

from trca.envs.alfworld.simulator import GameFileError
from trca.envs.alfworld.tasks import GOALS, SPLITS

GAME_FILE = "game.tw-pddl"
LAYOUT = f"<split>/<task>/<trial>/{GAME_FILE} with splits {', '.join(SPLITS)}"
_RECEIPT = "unpacked.json"
_BROKEN = (EOFError, OSError, lzma.LZMAError, tarfile.TarError, zipfile.BadZipFile, zlib.error)


def sha256(path: Path) -> str:
    """The SHA-256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def unpacked(archive: Path) -> Path:
    """The folder in the cache that holds an archive's games, unpacked on first use.

    The folder is named by the archive's checksum and appears only once it is complete, so that any
    number of processes may ask at the same time; it is unpacked anew where files are gone from it.

    Raises:
        GameFileError: When the archive is broken or holds no games.
    """
    folder = user_cache_path("trca") / "alfworld" / "games" / sha256(archive)[:16]
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):
        if not _complete(folder):
            shutil.rmtree(folder, ignore_errors=True)
            unpack(archive, folder)
    return folder


def unpack(archive: Path, folder: Path) -> int:
    """Unpacks the games of an archive into a new folder and returns their number.

    Args:
        archive: A ``.tar.xz``, ``.tar.gz``, ``.tar`` or ``.zip``.
        folder: Where the splits go. It must not exist.

    Raises:
        GameFileError: When the archive is broken or holds no games; the folder is not made then.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        try:
            files = _write_games(archive, work)
        except _BROKEN as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            reason = " ".join(str(error).split())
            raise GameFileError(archive, f"the archive is broken ({reason})") from None
        if not files:
            raise GameFileError(archive, f"there are no games in this archive: expected {LAYOUT}")
        (work / _RECEIPT).write_text(json.dumps({"archive": archive.name, "files": files}))
        work.chmod(0o755)
        os.rename(work, folder)
        return len(files)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _complete(folder: Path) -> bool:
    try:
        files = json.loads((folder / _RECEIPT).read_text())["files"]
        return all((folder / name).stat().st_size == size for name, size in files.items())
    except (OSError, ValueError, KeyError):
        return False


def _write_games(archive: Path, folder: Path) -> dict[str, int]:
    from rich.console import Console
    from rich.progress import Progress

    files = {}
    hidden = not sys.stderr.isatty()
    with (
        archive.open("rb") as raw,
        Progress(console=Console(stderr=True), transient=True, disable=hidden) as progress,
    ):
        bar = progress.add_task(f"Unpacking {archive.name}", total=archive.stat().st_size)
        for name, member in _members(archive, raw):
            place = _game_path(name)
            if place is None:
                continue
            target = folder / place
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("wb") as out:
                shutil.copyfileobj(member, out)
            files[str(place)] = target.stat().st_size
            progress.update(bar, completed=raw.tell())
    return files


def _members(archive: Path, raw: BinaryIO) -> Iterator[tuple[str, IO[bytes]]]:
    if archive.suffix == ".zip" or zipfile.is_zipfile(raw):
        with zipfile.ZipFile(raw) as packed:
            for info in packed.infolist():
                if not info.is_dir():
                    with packed.open(info) as member:
                        yield info.filename, member
        return
    raw.seek(0)
    with tarfile.open(fileobj=raw, mode="r:*") as tar:
        for entry in tar:
            content = tar.extractfile(entry) if entry.isreg() else None
            if content is not None:
                yield entry.name, content


def _game_path(name: str) -> PurePosixPath | None:
    """Where a member goes in the folder; None for what is no game. Cannot lead out of it."""
    parts = PurePosixPath(name).parts[-4:]
    if len(parts) < 4 or ".." in parts or parts[3] != GAME_FILE:
        return None
    if parts[0] not in SPLITS or parts[1].partition("-")[0] not in GOALS.values():
        return None
    return PurePosixPath(*parts)
