"""`Curriculum`: draws the tasks of the training panel for each iteration.

Without a curriculum, iterations follow shuffled epochs over the panel (`Panel.batch`). With a
curriculum of strength c, tasks are drawn without replacement and with a preference for tasks that
succeed half of the time::

    weight of a task = 1 - c + 4 c p (1 - p),   p = (s + 1) / (n + 2)

for s successes in n rollouts so far. Each new group halves the earlier counts, so that the weight
follows the policy. A task without a rollout has weight 1. The draw is a pure function of seed,
iteration and counts, for any number of runners. Checkpoints contain the counts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from trca.envs.panel import Panel
from trca.records import Floats, Rollout, episodes


class Curriculum:
    """Draws the tasks of iterations."""

    def __init__(self, panel: Panel, strength: float, seed: int) -> None:
        """Starts without a rollout; ``strength`` is c, from 0 (none) to 1."""
        self._panel, self._strength, self._seed = panel, strength, seed
        self._counts: dict[str, tuple[float, float]] = {}

    def tasks(self, iteration: int, size: int) -> tuple[str, ...]:
        """The tasks of an iteration, numbered from 0; a panel with fewer tasks repeats."""
        if not self._strength:
            return self._panel.batch(iteration, size, self._seed)
        order = self._order(iteration)
        return tuple(order[k % len(order)] for k in range(size))

    def more(self, iteration: int, size: int, start: int, count: int) -> tuple[str, ...]:
        """Further tasks: those that the iteration has not played, or all if it has.

        ``size`` tasks are from the start of the iteration, and ``start`` further tasks are drawn
        already.
        """
        played = set(self.tasks(iteration, size))
        order = self._order(iteration)
        rest = [task for task in order if task not in played] or order
        return tuple(rest[k % len(rest)] for k in range(start, start + count))

    def weights(self) -> Floats:
        """The weight of each task, in the order of the panel."""
        counts = np.array([self._counts.get(task, (0.0, 0.0)) for task in self._panel.task_ids])
        p = (counts[:, 0] + 1.0) / (counts[:, 1] + 2.0)
        return np.asarray(1.0 - self._strength + self._strength * 4.0 * p * (1.0 - p))

    def learn(self, rollouts: Sequence[Rollout]) -> None:
        """Counts the successes of an iteration's rollouts."""
        if not self._strength:
            return
        groups: dict[tuple[str, int], list[bool]] = defaultdict(list)
        for rollout in episodes(rollouts):
            groups[rollout.task_id, rollout.group].append(rollout.won)
        for (task, _), won in groups.items():
            successes, number = self._counts.get(task, (0.0, 0.0))
            self._counts[task] = (successes / 2 + sum(won), number / 2 + len(won))

    def get_state(self) -> dict[str, Any]:
        """The counts."""
        return {"counts": dict(self._counts)}

    def set_state(self, state: dict[str, Any]) -> None:
        """Restores the counts."""
        self._counts = {task: (float(s), float(n)) for task, (s, n) in state["counts"].items()}

    def _order(self, iteration: int) -> list[str]:
        """All tasks, drawn in sequence by their weights."""
        draws = np.random.default_rng([self._seed, iteration, 1]).exponential(
            size=len(self._panel.task_ids)
        )
        order = np.argsort(draws / np.maximum(self.weights(), 1e-12), kind="stable")
        return [self._panel.task_ids[k] for k in order]
