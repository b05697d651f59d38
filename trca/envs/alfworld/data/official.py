"""The official games as files: their download, archives and folders.

A folder contains ``<split>/<task>/<trial>/game.tw-pddl`` files.
"""

from __future__ import annotations

import json
import lzma
import os
import shutil
import tarfile
import time
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, BinaryIO, Final

import httpx

from trca.common.cache import build_once, cache_folder
from trca.common.errors import short_line
from trca.common.files import sha256
from trca.common.progress import progress_bar
from trca.envs.alfworld.game import GameFileError
from trca.envs.alfworld.resources import GOALS, SPLITS

GAME_FILE: Final = "game.tw-pddl"
LAYOUT: Final = f"<split>/<task>/<trial>/{GAME_FILE} with splits {', '.join(SPLITS)}"
_RECEIPT: Final = "unpacked.json"
_BROKEN: Final = (
    *(EOFError, OSError, lzma.LZMAError, tarfile.TarError, zipfile.BadZipFile, zlib.error),
)


class GamesMissingError(GameFileError, FileNotFoundError):
    """The official games are not on this machine."""


class DownloadError(RuntimeError):
    """A download failed. The message names the file, the reason and the fix."""


@dataclass(frozen=True)
class Release:
    """A file to download: its address, its checksum in hex, and its size in bytes."""

    url: str
    sha256: str
    size: int

    @property
    def file_name(self) -> str:
        """The last part of the address."""
        return self.url.rpartition("/")[2]


RELEASE: Final = Release(
    url="https://github.com/alfworld/alfworld/releases/download/0.4.2/json_2.1.3_tw-pddl.zip",
    sha256="5df77ea759f2211a4106082839ddbbb790f1ba4e7d097ed732cf453f72aa36cf",
    size=36_507_267,
)
"""The games of ALFWorld 0.4.2: train 3553, valid_seen 140, valid_unseen 134, valid_train 200."""


def data_folder() -> Path:
    """The folder of the official games: ``ALFWORLD_DATA`` if set, else one in the cache folder."""
    configured = os.environ.get("ALFWORLD_DATA")
    return Path(configured).expanduser() if configured else cache_folder() / "alfworld"


def official_folder() -> Path:
    """`data_folder`; a GamesMissingError if it contains no games."""
    folder = data_folder()
    if not folder.is_file() and not (folder.is_dir() and _split_folder(folder)):
        raise GamesMissingError(
            folder,
            "there are no official games in this folder, which ALFWORLD_DATA or the default names",
        )
    return folder


def fetch_games(
    folder: Path | None = None, archive: Path | None = None, release: Release = RELEASE
) -> Path:
    """Puts the official games into a folder, by default `data_folder`, unless it already has them.

    The games go to its sub-folder ``json_2.1.1/``, in ALFWorld's layout. They come from an archive,
    or else from the release.
    """
    target = folder or data_folder()

    def build(draft: Path) -> None:
        fetched = archive or download(release, target)
        unpack(fetched, draft)
        if archive is None:
            fetched.unlink()

    build_once(target / "json_2.1.1", build)
    return target


def download(release: Release, folder: Path, attempts: int = 6, wait: float = 1.0) -> Path:
    """Downloads a file into a folder and returns its path; a DownloadError if all attempts fail.

    An interrupted download stays in the folder as ``.part``; this call or a later call continues
    it. The file gets its final name after its checksum is verified. ``attempts`` in a row may make
    no progress; ``wait`` seconds pass before the second, and twice as many before each further one.
    """
    target = folder / release.file_name
    if target.exists() and sha256(target) == release.sha256:
        return target
    part = target.with_name(f"{target.name}.part")
    failures, reason = 0, ""
    while failures < attempts:
        bytes_before = _bytes(part)
        try:
            _continue(release, part)
            if _bytes(part) < release.size:
                reason = f"the response ended after {_bytes(part):,} of {release.size:,} bytes"
            elif (checksum := sha256(part)) == release.sha256:
                return part.rename(target)
            else:
                reason = f"the file's checksum is {checksum}, expected {release.sha256}"
                part.unlink()
                if bytes_before == 0:
                    break
        except httpx.HTTPStatusError as error:
            status = error.response.status_code
            reason = f"the server answers {status} {error.response.reason_phrase}"
            if status < 500 and status not in (408, 429):
                break
        except httpx.HTTPError as error:
            reason = f"{type(error).__name__}: {error}"
        failures = 0 if _bytes(part) > bytes_before else failures + 1
        time.sleep(wait * 2**failures / 2 if failures < attempts else 0)
    raise DownloadError(
        f"cannot fetch {release.url}: {reason}. Try again later (the partial download is kept), or"
        " download the file by other means and pass it with --from FILE"
    )


def _bytes(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _continue(release: Release, part: Path) -> None:
    """Downloads the rest of a file. A server without support for ranges sends the complete file."""
    bytes_before = _bytes(part)
    if bytes_before == release.size:
        return
    if bytes_before > release.size:
        part.unlink()
        bytes_before = 0
    if shutil.disk_usage(part.parent).free < release.size - bytes_before:
        raise DownloadError(f"{part.parent} has no room for {release.size:,} bytes: free space")
    headers = {"Accept-Encoding": "identity", "Range": f"bytes={bytes_before}-"}
    with (
        progress_bar(in_bytes=True) as report,
        httpx.stream(
            "GET", release.url, headers=headers, follow_redirects=True, timeout=30
        ) as response,
    ):
        response.raise_for_status()
        resumed = response.status_code == 206
        with part.open("ab" if resumed else "wb") as file:
            for chunk in response.iter_raw():
                file.write(chunk)
                report(f"Downloading {release.file_name}", file.tell(), release.size)
                if file.tell() > release.size:
                    return


def game_folder(path: Path) -> Path:
    """The folder with the splits: the path, a sub-folder, or the unpacked archive."""
    path = path.expanduser().resolve()
    path = unpacked(path) if path.is_file() else path
    if not path.is_dir():
        raise GameFileError(path, f"there is no such folder: expected {LAYOUT}")
    folder = _split_folder(path)
    if folder is None:
        raise GameFileError(path, f"there are no games in this folder: expected {LAYOUT}")
    return folder


def _split_folder(path: Path) -> Path | None:
    """The folder or its first sub-folder that contains splits; None if there is no such folder."""
    for folder in (path, *sorted(p for p in path.iterdir() if p.is_dir())):
        if any((folder / split).is_dir() for split in SPLITS):
            return folder
    return None


def unpacked(archive: Path) -> Path:
    """The cached folder with the games of an archive, unpacked on first use.

    The archive's checksum names the folder. The archive is unpacked again if files are missing.
    """
    folder = cache_folder() / "alfworld" / "games" / sha256(archive)[:16]
    return build_once(folder, lambda draft: unpack(archive, draft), _complete)


def unpack(archive: Path, folder: Path) -> None:
    """Unpacks the games of a ``.zip``, ``.tar``, ``.tar.gz`` or ``.tar.xz`` into a folder."""
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
    """Target path of a game, which never leads out of the folder; None for any other member."""
    parts = PurePosixPath(name).parts[-4:]
    if len(parts) < 4 or ".." in parts or parts[3] != GAME_FILE:
        return None
    if parts[0] not in SPLITS or parts[1].partition("-")[0] not in GOALS.values():
        return None
    return PurePosixPath(*parts)
