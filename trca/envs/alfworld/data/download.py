"""Downloads the official ALFWorld games, with resume, retries and a checksum."""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx

from trca.common.cache import build_once
from trca.common.files import sha256
from trca.common.progress import progress_bar
from trca.envs.alfworld.data.archive import unpack
from trca.envs.alfworld.data.official import OfficialGames, data_folder


class DownloadError(RuntimeError):
    """A file could not be fetched; the message says which, why, and what to do."""


@dataclass(frozen=True)
class Release:
    """A file to fetch.

    Attributes:
        url: Where it is.
        sha256: Its checksum, in hex.
        size: Its bytes.
    """

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


def fetch_games(
    folder: Path | None = None, archive: Path | None = None, release: Release = RELEASE
) -> OfficialGames:
    """Puts the official games into a folder, unless they are there already.

    Args:
        folder: Where to; None for ``ALFWORLD_DATA`` where it is set, else `data_folder`.
            The games go to ``json_2.1.1/`` in it, as ALFWorld itself lays them out.
        archive: An archive to take them from, in place of fetching one.
        release: What to fetch.

    Raises:
        DownloadError: When the release cannot be fetched.
        GameFileError: When the archive is broken or holds no games.
    """
    if folder is None:
        named = os.environ.get("ALFWORLD_DATA")
        folder = Path(named).expanduser() if named else data_folder()

    def build(draft: Path) -> None:
        fetched = archive or download(release, folder)
        unpack(fetched, draft)
        if archive is None:
            fetched.unlink()

    build_once(folder / "json_2.1.1", build)
    return OfficialGames(folder)


def download(release: Release, folder: Path, attempts: int = 6, wait: float = 1.0) -> Path:
    """Fetches a file into a folder and returns its path.

    What was fetched before a break is kept beside it as ``.part`` and continued, by this call or a
    later one. The file takes its name only once its checksum is right.

    Args:
        release: What to fetch.
        folder: Where to put it.
        attempts: How often to try in a row without gaining a byte, at least 1.
        wait: Seconds before the second attempt; doubled for each further one.

    Raises:
        DownloadError: When the attempts are used up, the server refuses, or the checksum is wrong.
    """
    target = folder / release.file_name
    if target.exists() and sha256(target) == release.sha256:
        return target
    part = target.with_name(f"{target.name}.part")
    failures, reason = 0, ""
    while failures < attempts:
        had = _bytes(part)
        try:
            _continue(release, part)
            if _bytes(part) < release.size:
                reason = f"the answer ended after {_bytes(part):,} of {release.size:,} bytes"
            elif (found := sha256(part)) == release.sha256:
                return part.rename(target)
            else:
                reason = f"the file's checksum is {found}, expected {release.sha256}"
                part.unlink()
                if had == 0:
                    break
        except httpx.HTTPStatusError as error:
            status = error.response.status_code
            reason = f"the server answers {status} {error.response.reason_phrase}"
            if status < 500 and status not in (408, 429):
                break
        except httpx.HTTPError as error:
            reason = f"{type(error).__name__}: {error}"
        failures = 0 if _bytes(part) > had else failures + 1
        time.sleep(wait * 2**failures / 2 if failures < attempts else 0)
    raise DownloadError(
        f"cannot fetch {release.url}: {reason}. Try again later (what was fetched is kept), or"
        " fetch the file by other means and pass it with --from FILE"
    )


def _bytes(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _continue(release: Release, part: Path) -> None:
    """Downloads the rest of a file; a server without ranges sends it from the start."""
    had = _bytes(part)
    if had == release.size:
        return
    if had > release.size:
        part.unlink()
        had = 0
    if shutil.disk_usage(part.parent).free < release.size - had:
        raise DownloadError(f"{part.parent} has no room for the {release.size:,} bytes to fetch")
    headers = {"Accept-Encoding": "identity", "Range": f"bytes={had}-"}
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
