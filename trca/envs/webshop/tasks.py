"""Tasks of WebShop: the goals of a split, under ids that contain a hash of their content."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from trca.common.shared import Shared, named
from trca.envs.panel import no_task
from trca.envs.webshop.data.catalogue import Catalogue, Compat
from trca.envs.webshop.goals import Goal, goals_hash, make_goals, split_of


@dataclass(frozen=True)
class Tasks(Shared):
    """The tasks of a split, shared by all environments of a process.

    An id such as ``human-90225d4f/train/00012`` has the kind of goals, a hash of the catalogue with
    its prices and goals, the split, and the index of the goal. Therefore equal ids mean equal
    tasks, and the hash of a panel covers everything that its tasks depend on.

    Attributes:
        goals: All goals of the catalogue.
        split: Name of the split.
        ids: The task ids, in order.
        index: Task id -> index of the goal.
    """

    goals: tuple[Goal, ...]
    split: str
    ids: tuple[str, ...]
    index: Mapping[str, int]

    def find(self, task_id: object) -> int:
        """The index of a task's goal.

        Raises:
            ValueError: If the split has no such task. The message names the nearest task id.
        """
        if task_id not in self.index:
            raise no_task(task_id, self.split, self.ids)
        return self.index[str(task_id)]


@lru_cache(16)
def tasks_of(
    catalogue: Catalogue, kind: str, seed: int, compat: Compat, rule: str, split: str
) -> Tasks:
    """The tasks of a split, cached per process.

    Args:
        catalogue: The products.
        kind: ``human`` or ``synthetic`` goals.
        seed: Seed of the price bounds.
        compat: ``clean`` or ``original``.
        rule: One of `goals.SPLIT_RULES`.
        split: A split of the rule.

    Raises:
        ValueError: For an unknown name or an empty split. The message lists the known names.
    """
    goals = make_goals(catalogue, kind, seed, compat)
    indices = split_of(goals, rule, split)
    content = hashlib.sha256(f"{catalogue.hash}/{goals_hash(goals)}".encode()).hexdigest()[:8]
    index = {f"{kind}-{content}/{split}/{number:05d}": number for number in indices}
    tasks = Tasks(goals, split, tuple(index), index)
    return named(tasks, tasks_of, catalogue, kind, seed, compat, rule, split)
