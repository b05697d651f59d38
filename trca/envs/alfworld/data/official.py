"""Official games: a folder or an archive of ``<split>/<task>/<trial>/game.tw-pddl`` files."""

from __future__ import annotations

import json
import lzma
import os
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Hashable, Iterable, Iterator
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import IO, BinaryIO

from trca.common.cache import build_once, cache_folder
from trca.common.errors import short_line
from trca.common.files import sha256, versions
from trca.common.names import unknown
from trca.common.progress import progress_bar
from trca.common.shared import named
from trca.envs.alfworld.data.shelf import GameSource
from trca.envs.alfworld.resources import GOALS, SPLITS, check_task_types
from trca.envs.alfworld.simulator import Game, GameFileError

GAME_FILE = "game.tw-pddl"
LAYOUT = f"<split>/<task>/<trial>/{GAME_FILE} with splits {', '.join(SPLITS)}"
_RECEIPT = "unpacked.json"
_BROKEN = (EOFError, OSError, lzma.LZMAError, tarfile.TarError, zipfile.BadZipFile, zlib.error)


class GamesMissingError(GameFileError, FileNotFoundError):
    """The official games are not on this machine."""


def data_folder() -> Path:
    """The default folder of ``trca data alfworld``, in the cache folder."""
    return cache_folder() / "alfworld"


def official_folder() -> Path:
    """The folder of the official games on this machine.

    ``ALFWORLD_DATA`` if set, else the folder of ``trca data alfworld``.

    Raises:
        GamesMissingError: If the folder contains no games.
    """
    configured = os.environ.get("ALFWORLD_DATA")
    folder = Path(configured).expanduser() if configured else data_folder()
    if not folder.is_file() and not (folder.is_dir() and _split_folder(folder)):
        raise GamesMissingError(
            folder,
            "there are no official games in this folder, which ALFWORLD_DATA or the default names",
        )
    return folder


class OfficialGames(GameSource):
    """The games of an ALFWorld release, in the order of their names.

    Example of a task id:
    ``valid_seen/pick_heat_then_place_in_recep-Egg-None-Fridge-13/trial_T2019...``. The name of the
    folder contains the task type. Task types that ALFWorld excludes (movable receptacles, slices)
    are excluded here too.
    """

    def __init__(self, path: str | Path) -> None:
        """Lists the games.

        Args:
            path: A folder with the splits, its parent, or a ``.tar.xz``, ``.tar.gz`` or ``.zip`` of
                either. An archive is unpacked once, into the cache.

        Raises:
            GameFileError: If there are no games at the path, or the archive is broken.
        """
        path = Path(path).expanduser().resolve()
        self.folder = _root(unpacked(path) if path.is_file() else path)
        self.name = str(self.folder)
        self._tasks = _index(self.folder, _changes(self.folder))
        self.splits = tuple(self._tasks)
        named(self, OfficialGames, self.name)

    def task_ids(self, split: str, task_types: Iterable[str] | None = None) -> tuple[str, ...]:
        """The sorted task ids of a split."""
        self._check_split(split)
        types = GOALS if task_types is None else check_task_types(task_types)
        task_ids = tuple(
            task_id for task_id, task_type in self._tasks[split].items() if task_type in types
        )
        if not task_ids:
            raise ValueError(f"{self.folder / split} has no {', '.join(types)} tasks")
        return task_ids

    def task_type(self, task_id: str) -> str:
        """The type of a task, from its folder name."""
        split = task_id.partition("/")[0]
        self._check_split(split)
        if task_id not in self._tasks[split]:
            raise unknown(f"task of {split}", task_id, self._tasks[split])
        return self._tasks[split][task_id]

    def _read(self, task_id: str) -> Game:
        self.task_type(task_id)
        return Game.from_file(self.folder / task_id / GAME_FILE)

    def _key(self, task_id: str) -> Hashable:
        return versions(self.folder / task_id / GAME_FILE) or super()._key(task_id)


def task_type_of(folder: str) -> str | None:
    """The task type in the name of an official task's folder; None for excluded types."""
    goal = folder.partition("-")[0]
    if "Sliced" in folder:
        return None
    return next((name for name, official_name in GOALS.items() if official_name == goal), None)


def _root(path: Path) -> Path:
    """The folder with the splits: the path or one of its sub-folders."""
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


def _changes(folder: Path) -> tuple[int, ...]:
    """Modification times of the folders of splits and tasks; new tasks and trials change them."""
    splits = [folder / split for split in SPLITS if (folder / split).is_dir()]
    tasks = [task.stat() for split in splits for task in os.scandir(split)]
    return tuple(stat.st_mtime_ns for stat in (*map(Path.stat, splits), *tasks))


@lru_cache(8)
def _index(folder: Path, changes: tuple[int, ...]) -> dict[str, dict[str, str]]:
    """Split -> task id -> task type, in order; without empty splits."""
    index = {
        split: dict(sorted(_tasks(folder, split))) for split in SPLITS if (folder / split).is_dir()
    }
    index = {split: task_types for split, task_types in index.items() if task_types}
    if not index:
        raise GameFileError(folder, f"there are no games in this folder: expected {LAYOUT}")
    return index


def _tasks(folder: Path, split: str) -> Iterator[tuple[str, str]]:
    for task in os.scandir(folder / split):
        task_type = task_type_of(task.name)
        if task_type is None or not task.is_dir():
            continue
        for trial in os.scandir(task.path):
            if os.path.exists(os.path.join(trial.path, GAME_FILE)):
                yield f"{split}/{task.name}/{trial.name}", task_type


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
