"""Unpacks the games in an archive of official games and skips all further files."""

from __future__ import annotations

import json
import lzma
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO, BinaryIO

from trca.common.cache import build_once, cache_folder
from trca.common.files import sha256
from trca.common.progress import progress_bar
from trca.common.short_line import short_line
from trca.envs.alfworld.simulator import GameFileError
from trca.envs.alfworld.tasks import GOALS, SPLITS

GAME_FILE = "game.tw-pddl"
LAYOUT = f"<split>/<task>/<trial>/{GAME_FILE} with splits {', '.join(SPLITS)}"
_RECEIPT = "unpacked.json"
_BROKEN = (EOFError, OSError, lzma.LZMAError, tarfile.TarError, zipfile.BadZipFile, zlib.error)


def unpacked(archive: Path) -> Path:
    """The cached folder with the games of an archive, unpacked on first use.

    The archive's checksum names the folder. The archive is unpacked again if files are missing.

    Raises:
        GameFileError: If the archive is broken or contains no games.
    """
    folder = cache_folder() / "alfworld" / "games" / sha256(archive)[:16]
    return build_once(folder, lambda draft: unpack(archive, draft), _complete)


def unpack(archive: Path, folder: Path) -> None:
    """Unpacks the games of an archive into an empty folder.

    Args:
        archive: A ``.tar.xz``, ``.tar.gz``, ``.tar`` or ``.zip``.
        folder: Target folder; gets one sub-folder per split.

    Raises:
        GameFileError: If the archive is broken or contains no games.
    """
    try:
        files = _write_games(archive, folder)
    except _BROKEN as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise GameFileError(archive, f"the archive is broken ({short_line(error)})") from None
    if not files:
        raise GameFileError(archive, f"there are no games in this archive: expected {LAYOUT}")
    (folder / _RECEIPT).write_text(json.dumps({"archive": archive.name, "files": files}))


def _complete(folder: Path) -> bool:
    try:
        files = json.loads((folder / _RECEIPT).read_text())["files"]
        return all((folder / name).stat().st_size == size for name, size in files.items())
    except (OSError, ValueError, KeyError):
        return False


def _write_games(archive: Path, folder: Path) -> dict[str, int]:
    files = {}
    size = archive.stat().st_size
    with archive.open("rb") as raw, progress_bar(in_bytes=True) as report:
        for name, member in _members(archive, raw):
            place = _game_path(name)
            if place is None:
                continue
            target = folder / place
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("wb") as out:
                shutil.copyfileobj(member, out)
            files[str(place)] = target.stat().st_size
            report(f"Unpacking {archive.name}", raw.tell(), size)
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
    """Target path of a game inside the folder; None for any other member.

    The path never leads out of the folder.
    """
    parts = PurePosixPath(name).parts[-4:]
    if len(parts) < 4 or ".." in parts or parts[3] != GAME_FILE:
        return None
    if parts[0] not in SPLITS or parts[1].partition("-")[0] not in GOALS.values():
        return None
    return PurePosixPath(*parts)
