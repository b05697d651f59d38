"""`GameSource`: a named source of games, and the games that a process has loaded."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Hashable, Iterable
from typing import Final
from weakref import WeakValueDictionary

from trca.common.names import unknown
from trca.common.shared import Shared, named
from trca.envs.alfworld.simulator import Game

_LOCK: Final = threading.Lock()
_USED: Final[WeakValueDictionary[Hashable, Game]] = WeakValueDictionary()
_RECENT: Final[OrderedDict[Hashable, Game]] = OrderedDict()
"""The most recently requested games, in addition to all games in use."""
_KEPT: Final = 64


class GameSource(Shared, ABC):
    """A named source of games.

    Attributes:
        name: Name of the source.
        splits: The splits of the source.
    """

    name: str
    splits: tuple[str, ...]

    @abstractmethod
    def task_ids(self, split: str, task_types: Iterable[str] | None = None) -> tuple[str, ...]:
        """The task ids of a split in a fixed order.

        Args:
            split: Name of the split.
            task_types: The task types to include; None for the default types.

        Raises:
            ValueError: If the split or a type is unknown, or there are no such tasks.
        """

    @abstractmethod
    def task_type(self, task_id: str) -> str:
        """The type of a task, one of `resources.TASK_TYPES`."""

    @abstractmethod
    def _read(self, task_id: str) -> Game:
        """Generates or reads the game of a task."""

    def load(self, task_id: str) -> Game:
        """The game of a task. All callers in a process share one object until its file changes.

        Raises:
            GameFileError: If the game's file is missing or broken.
            ValueError: If the source has no such task.
        """
        key = self._key(task_id)
        with _LOCK:
            game = _USED.get(key)
        if game is None:
            game = named(self._read(task_id), GameSource.load, self, task_id)
        with _LOCK:
            game = _USED.setdefault(key, game)
            _RECENT[key] = game
            _RECENT.move_to_end(key)
            if len(_RECENT) > _KEPT:
                _RECENT.popitem(last=False)
        return game

    def _key(self, task_id: str) -> Hashable:
        """Equal keys mean equal games."""
        return self.name, task_id

    def _check_split(self, split: str) -> None:
        if split not in self.splits:
            raise unknown(f"split of {self.name} games", split, self.splits)
