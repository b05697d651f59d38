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
from trca.envs.alfworld.data.official import OfficialGames, data_folder, unpack


class DownloadError(RuntimeError):
    """A download failed. The message names the file, the reason and the fix."""


@dataclass(frozen=True)
class Release:
    """A file to download.

    Attributes:
        url: Address of the file.
        sha256: Checksum in hex.
        size: Size in bytes.
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
    """Puts the official games into a folder, unless the folder already has them.

    Args:
        folder: Target folder; None for ``ALFWORLD_DATA`` if set, else `data_folder`. The games go
            to its sub-folder ``json_2.1.1/``, in ALFWorld's layout.
        archive: Archive with the games; None downloads the release.
        release: The file to download.

    Raises:
        DownloadError: If the download fails.
        GameFileError: If the archive is broken or contains no games.
    """
    if folder is None:
        configured = os.environ.get("ALFWORLD_DATA")
        folder = Path(configured).expanduser() if configured else data_folder()

    def build(draft: Path) -> None:
        fetched = archive or download(release, folder)
        unpack(fetched, draft)
        if archive is None:
            fetched.unlink()

    build_once(folder / "json_2.1.1", build)
    return OfficialGames(folder)


def download(release: Release, folder: Path, attempts: int = 6, wait: float = 1.0) -> Path:
    """Downloads a file into a folder and returns its path.

    An interrupted download stays in the folder as ``.part``; this call or a later call continues
    it. The file gets its final name after its checksum is verified.

    Args:
        release: The file to download.
        folder: Target folder.
        attempts: Number of successive attempts without progress, at least 1.
        wait: Seconds before the second attempt. The wait doubles with each further attempt.

    Raises:
        DownloadError: If all attempts fail, the server refuses the request, or the checksum is
            wrong.
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
