"""Sources of games: generated in a size, or read from an official release."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

from trca.common.files import versions
from trca.common.names import unknown
from trca.common.shared import Shared, named
from trca.envs.alfworld.data import generate
from trca.envs.alfworld.data.generate import SIZES
from trca.envs.alfworld.data.official import GAME_FILE, LAYOUT, game_folder, official_folder
from trca.envs.alfworld.game import Game, GameFileError
from trca.envs.alfworld.resources import GOALS, SPLITS, TASK_TYPES, check_task_types


class GameSource(Shared, ABC):
    """A named source of games."""

    name: str
    splits: tuple[str, ...]

    @abstractmethod
    def task_ids(self, split: str, task_types: Iterable[str] | None = None) -> tuple[str, ...]:
        """The task ids of a split in a fixed order, of some task types, or of the default ones."""

    @abstractmethod
    def task_type(self, task_id: str) -> str:
        """The type of a task, one of `resources.TASK_TYPES`."""

    @abstractmethod
    def _read(self, task_id: str) -> Game:
        """Generates or reads the game of a task."""

    def load(self, task_id: str) -> Game:
        """The game of a task. All callers in a process share one object until its file changes."""
        return _load(self, task_id, self._version(task_id))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GameSource) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)

    def _version(self, task_id: str) -> Hashable:
        return None

    def _check_split(self, split: str) -> None:
        if split not in self.splits:
            raise unknown(f"split of {self.name} games", split, self.splits)


@lru_cache(256)
def _load(source: GameSource, task_id: str, version: Hashable) -> Game:
    return named(source._read(task_id), GameSource.load, source, task_id)


class GeneratedGames(GameSource):
    """Generated games. Equal arguments give equal games on every machine.

    Example of a task id: ``small/train/heat-0012``. The game depends on the task id only, so panels
    of different lengths or task types share their common games.
    """

    _ID: ClassVar[re.Pattern[str]] = re.compile(r"([^/]+)/([a-z_]+)/([a-z0-9]+)-(\d{4,})")

    def __init__(self, size: str = "small", seed: int = 0) -> None:
        """Sets a size and a seed. A seed other than 0 is part of the name (``small-7``)."""
        if size not in SIZES:
            raise unknown("size of generated games", size, SIZES)
        self.size = size
        self.seed = seed
        self.name = f"{size}-{seed}" if seed else size
        self.splits = generate.SPLITS

    def task_ids(self, split: str, task_types: Iterable[str] | None = None) -> tuple[str, ...]:
        """The task ids of a split, alternating between task types; the size sets their number."""
        self._check_split(split)
        size = SIZES[self.size]
        types = size.task_types if task_types is None else check_task_types(task_types)
        return tuple(
            f"{self.name}/{split}/{types[i % len(types)].lower()}-{i // len(types):04d}"
            for i in range(size.tasks[split])
        )

    def task_type(self, task_id: str) -> str:
        """The type of a task, from its id."""
        return self._parts(task_id)[1]

    def _read(self, task_id: str) -> Game:
        split, task_type, number = self._parts(task_id)
        return Game(generate.draw(self.size, split, task_type, number, self.seed).game())

    def _parts(self, task_id: str) -> tuple[str, str, int]:
        match = self._ID.fullmatch(task_id)
        if match is None or match[1] != self.name:
            raise ValueError(
                f"{task_id[:200]!r} is not a task of {self.name} games: give an id such as"
                f" {self.name}/train/heat-0012"
            )
        self._check_split(match[2])
        for task_type in TASK_TYPES:
            if task_type.lower() == match[3]:
                return match[2], task_type, int(match[4])
        raise unknown("task type", match[3], [name.lower() for name in TASK_TYPES])


class OfficialGames(GameSource):
    """The games of an ALFWorld release, in the order of their names.

    Example of a task id:
    ``valid_seen/pick_heat_then_place_in_recep-Egg-None-Fridge-13/trial_T2019...``. The name of the
    folder contains the task type. Task types that ALFWorld excludes (movable receptacles, slices)
    are excluded here too.
    """

    def __init__(self, path: str | Path) -> None:
        """Lists the games in a folder with the splits, its parent, or an archive of either.

        An archive is unpacked once, into the cache.
        """
        self.folder = game_folder(Path(path))
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

    def _version(self, task_id: str) -> Hashable:
        return versions(self.folder / task_id / GAME_FILE)


def task_type_of(folder: str) -> str | None:
    """The task type in the name of an official task's folder; None for excluded types."""
    goal = folder.partition("-")[0]
    if "Sliced" in folder:
        return None
    return next((name for name, official_name in GOALS.items() if official_name == goal), None)


def _changes(folder: Path) -> tuple[int, ...]:
    """Modification times of the folders of splits and tasks; new tasks and trials change them."""
    splits = [folder / split for split in SPLITS if (folder / split).is_dir()]
    return tuple(f.stat().st_mtime_ns for split in splits for f in (split, *split.iterdir()))


@lru_cache(8)
def _index(folder: Path, changes: tuple[int, ...]) -> dict[str, dict[str, str]]:
    """Split -> task id -> task type, in order; without empty splits."""
    index: dict[str, dict[str, str]] = {}
    for split in SPLITS:
        trials = [file.parent for file in (folder / split).glob(f"*/*/{GAME_FILE}")]
        types = {f"{split}/{t.parent.name}/{t.name}": task_type_of(t.parent.name) for t in trials}
        index[split] = {name: kind for name, kind in sorted(types.items()) if kind}
    index = {split: task_types for split, task_types in index.items() if task_types}
    if not index:
        raise GameFileError(folder, f"there are no games in this folder: expected {LAYOUT}")
    return index


def game_source(name: str | Path) -> GameSource:
    """The source with this name.

    The name is a size (``small``, ``medium``, ``large``), also with a seed (``small-7``);
    ``official`` for the release in ``ALFWORLD_DATA`` or from ``trca data alfworld``; or the path of
    a folder or archive of official games.
    """
    text = str(name)
    size, _, seed = text.partition("-")
    if size in SIZES and (not seed or seed.isdecimal()):
        return GeneratedGames(size, int(seed or 0))
    if text == "official":
        return OfficialGames(official_folder())
    if Path(text).expanduser().exists():
        return OfficialGames(text)
    if "/" in text or "\\" in text or Path(text).suffix:
        raise ValueError(
            f"no folder or archive of games at {text[:200]!r}: give the folder that holds train/,"
            " valid_seen/ and so on, or a .tar.xz, .tar.gz or .zip of it"
        )
    raise unknown("games", text, (*SIZES, "official"))
