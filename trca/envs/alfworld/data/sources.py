"""Sources of games: generated in a size, or read from an official release.

For example::

    source = game_source("small")
    game = source.load(source.task_ids("train")[0])
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar

from trca.common.names import unknown
from trca.envs.alfworld.data import generate
from trca.envs.alfworld.data.rooms import SIZES
from trca.envs.alfworld.data.shelf import GameSource
from trca.envs.alfworld.resources import TASK_TYPES, check_task_types
from trca.envs.alfworld.simulator import Game


class GeneratedGames(GameSource):
    """Generated games. Equal arguments give equal games on every machine.

    Example of a task id: ``small/train/heat-0012``. The game depends on the task id only, so panels
    of different lengths or task types share their common games.
    """

    _ID: ClassVar[re.Pattern[str]] = re.compile(r"([^/]+)/([a-z_]+)/([a-z0-9]+)-(\d{4,})")

    def __init__(self, size: str = "small", seed: int = 0) -> None:
        """Sets a size and a seed.

        Args:
            size: One of `rooms.SIZES`.
            seed: Each seed gives different games. A seed other than 0 is part of the name
                (``small-7``).
        """
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


def game_source(name: str | Path) -> GameSource:
    """The source with this name.

    Args:
        name: A size (``small``, ``medium``, ``large``), or a size with a seed (``small-7``).
            ``official`` for the release in ``ALFWORLD_DATA`` or from ``trca data alfworld``. Else
            the path of a folder or archive of official games.

    Raises:
        ValueError: For an unknown name or a missing path.
        GameFileError: If there are no games at the path.
    """
    from trca.envs.alfworld.data.official import OfficialGames, official_folder

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
