"""Panels: ordered, hashed lists of task ids that make runs comparable."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Generic, TypeVar

import gymnasium
import numpy as np

from trca.common import strict_yaml
from trca.common.names import nearest
from trca.common.shared import Shared

Item = TypeVar("Item")


@dataclass(frozen=True)
class Panel:
    """An ordered list of task ids of one split of one environment, by its Gymnasium id.

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
    """The tasks of a split by task id, in order, shared by all environments of a process."""

    split: str
    items: Mapping[str, Item]

    @cached_property
    def ids(self) -> tuple[str, ...]:
        """The task ids, in order."""
        return tuple(self.items)

    def find(self, task_id: object) -> Item:
        """The task with an id; the error of `no_task` if the split has no such task."""
        if task_id not in self.items:
            raise no_task(task_id, self.split, self.ids)
        return self.items[str(task_id)]


@dataclass(frozen=True)
class CanonicalPanel:
    """A named panel of a split of an environment, with a description in one sentence.

    ``env_config`` has the arguments that select the tasks. The panel has the first ``tasks`` of the
    split, or a random sample of seed 0 if it is ``shuffled``; all tasks for None.
    """

    name: str
    about: str
    environment: str
    env_config: Mapping[str, Any]
    split: str
    tasks: int | None = None
    shuffled: bool = False
    hash: str | None = None

    def draw(self, split: Panel | None = None) -> Panel:
        """Draws the tasks from the complete split; None makes the environment to get it.

        Data that differ from those of the original panel are a ValueError.
        """
        if split is None:
            name, arguments = f"trca.envs:{self.environment}", self.env_config
            env = gymnasium.make(name, split=self.split, **arguments)
            split = env.get_wrapper_attr("panel")
            env.close()
        assert split is not None
        count = len(split.task_ids)
        if self.tasks is not None and self.tasks > count:
            raise ValueError(f"panel {self.name} needs {self.tasks} tasks, the data have {count}")
        size = self.tasks or count
        drawn = split.batch(0, size, seed=0) if self.shuffled else split.task_ids[:size]
        panel = Panel(split.environment, split.split, drawn)
        if self.hash and panel.hash != self.hash:
            raise ValueError(
                f"panel {self.name} has the hash {self.hash}, these tasks have {panel.hash}:"
                " use the data of the original panel"
            )
        return panel


@cache
def canonical_panels() -> dict[str, CanonicalPanel]:
    """All canonical panels by name."""
    panels = strict_yaml.packaged("trca.envs", "panels.yaml")
    return {name: CanonicalPanel(name, **about) for name, about in panels.items()}


def canonical_panel(name: str) -> CanonicalPanel:
    """The canonical panel of this name."""
    panels = canonical_panels()
    if name not in panels:
        raise ValueError(f"no panel {name!r}: {nearest(name, panels)}")
    return panels[name]
