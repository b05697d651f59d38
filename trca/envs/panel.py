"""Panels: the ordered, hashed lists of tasks that make two runs comparable."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from trca.common.names import nearest


@dataclass(frozen=True)
class Panel:
    """An ordered list of tasks of one split of one environment.

    Attributes:
        environment: Gymnasium id of the environment, such as ``trca/ALFWorld-v0``.
        split: Name of the split.
        task_ids: The tasks in order, without repeats.
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
        """Sixteen hex digits; equal exactly when environment, split and tasks are."""
        text = json.dumps([self.environment, self.split, self.task_ids], ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def head(self, count: int | None) -> Panel:
        """The first ``count`` tasks (all of them for None) as a panel of its own."""
        return Panel(self.environment, self.split, self.task_ids[:count])

    def batch(self, iteration: int, size: int, seed: int) -> tuple[str, ...]:
        """The tasks of one training iteration: epochs over the panel, shuffled anew each.

        A pure function of its arguments, so any number of runners and a resumed run see the same.

        Args:
            iteration: Number of the iteration, from 0.
            size: Tasks in an iteration; the panel wraps around where it is smaller.
            seed: Seed of the run.
        """
        n = len(self.task_ids)
        first = iteration * size
        epochs = {
            e: np.random.default_rng([seed, e]).permutation(n)
            for e in range(first // n, (first + size - 1) // n + 1)
        }
        return tuple(self.task_ids[epochs[k // n][k % n]] for k in range(first, first + size))


def no_task(task_id: object, split: str, known: Sequence[str]) -> ValueError:
    """The error for a task that a split does not have; names the nearest one."""
    name = str(task_id)[:200]
    return ValueError(f"no task {name!r} in split {split!r}: {nearest(name, known)}")
