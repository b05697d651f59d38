"""Official games: a folder or an archive of ``<split>/<task>/<trial>/game.tw-pddl`` files."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable, Iterator
from functools import lru_cache
from pathlib import Path

from trca.common.cache import cache_folder
from trca.common.files import versions
from trca.common.names import unknown
from trca.common.shared import named
from trca.envs.alfworld.data.archive import GAME_FILE, LAYOUT, unpacked
from trca.envs.alfworld.data.shelf import GameSource
from trca.envs.alfworld.simulator import Game, GameFileError
from trca.envs.alfworld.tasks import GOALS, SPLITS, check_task_types


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
