"""Panels: ordered, hashed lists of task ids that make runs comparable."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeVar

import numpy as np

from trca.common.names import nearest
from trca.common.shared import Shared

Item = TypeVar("Item")


@dataclass(frozen=True)
class Panel:
    """An ordered list of task ids of one split of one environment.

    Attributes:
        environment: Gymnasium id of the environment, such as ``trca/ALFWorld-v0``.
        split: Name of the split.
        task_ids: The task ids in order, without repeats.

    Raises:
        ValueError: If the list is empty or repeats a task id.
    """

    environment: str
    split: str
    task_ids: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.task_ids:
            raise ValueError(f"the panel of {self.environment} {self.split!r} is empty")
        if len(set(self.task_ids)) != len(self.task_ids):
            raise ValueError(f"the panel of {self.environment} {self.split!r} repeats a task")

    @cached_property
    def hash(self) -> str:
        """Sixteen hex digits, equal for equal environment, split and task ids only."""
        text = json.dumps([self.environment, self.split, self.task_ids], ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def head(self, count: int | None) -> Panel:
        """A panel of the first ``count`` tasks; all tasks for None."""
        return Panel(self.environment, self.split, self.task_ids[:count])

    def batch(self, iteration: int, size: int, seed: int) -> tuple[str, ...]:
        """The task ids of one training iteration, from randomly ordered epochs over the panel.

        The result depends on the arguments only, so all runners and a resumed run get the same
        tasks.

        Args:
            iteration: Number of the iteration, from 0.
            size: Number of tasks per iteration. If `size` exceeds the panel, tasks repeat.
            seed: Seed of the run.
        """
        n = len(self.task_ids)
        first = iteration * size
        epochs = {
            e: np.random.default_rng([seed, e]).permutation(n)
            for e in range(first // n, (first + size - 1) // n + 1)
        }
        return tuple(self.task_ids[epochs[k // n][k % n]] for k in range(first, first + size))


def no_task(task_id: object, split: str, task_ids: Sequence[str]) -> ValueError:
    """The error for a task id that a split does not have. The message names the nearest task id."""
    name = str(task_id)[:200]
    return ValueError(f"no task {name!r} in split {split!r}: {nearest(name, task_ids)}")


@dataclass(frozen=True)
class Tasks(Shared, Generic[Item]):
    """The tasks of a split, shared by all environments of a process.

    Attributes:
        split: Name of the split.
        items: Task id -> the task, in order.
    """

    split: str
    items: Mapping[str, Item]

    @cached_property
    def ids(self) -> tuple[str, ...]:
        """The task ids, in order."""
        return tuple(self.items)

    def find(self, task_id: object) -> Item:
        """The task with an id.

        Raises:
            ValueError: If the split has no such task. The message names the nearest task id.
        """
        if task_id not in self.items:
            raise no_task(task_id, self.split, self.ids)
        return self.items[str(task_id)]
