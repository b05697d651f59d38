"""Samples later iterations while the learners update: asynchronous, with a bound on staleness."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import ray
from ray.rllib.env.env_runner_group import EnvRunnerGroup

from trca.algorithms.rollout import GroupRequest, RolloutBatch
from trca.algorithms.sampling import merge_batches, sample_on
from trca.policies.engines.engine import SamplingParams


class SamplingAhead:
    """Keeps every env runner busy with whole groups of this iteration and the next ones.

    Groups of iteration i start when the learners are at iteration i - ``max_staleness`` or later,
    so no step is older than ``max_staleness`` updates when it is trained on. All groups of an
    iteration are waited for: long rollouts are not passed over for short ones.
    """

    def __init__(
        self,
        runners: EnvRunnerGroup,
        groups_of: Callable[[int], Sequence[GroupRequest]],
        sampling: SamplingParams,
        max_staleness: int,
    ) -> None:
        """Starts idle.

        Args:
            runners: RLlib's set of runners; at least one is remote.
            groups_of: The groups of an iteration.
            sampling: Temperature and limits.
            max_staleness: How many iterations sampling may be ahead.
        """
        self._runners = runners
        self._groups_of = groups_of
        self._sampling = sampling
        self._ahead = max_staleness
        self._waiting: deque[tuple[int, list[GroupRequest]]] = deque()
        self._running: dict[Any, tuple[int, int]] = {}
        self._parts: dict[int, list[tuple[RolloutBatch, dict[str, Any]]]] = {}
        self._open: dict[int, int] = {}
        self._planned = -1

    def take(
        self, iteration: int, timeout_s: float | None
    ) -> tuple[RolloutBatch, list[dict[str, Any]]]:
        """Waits for the groups of an iteration; later ones go on.

        Args:
            iteration: Number of the iteration that the learners are at.
            timeout_s: Seconds after which its missing groups count as lost.

        Returns:
            The rollouts and the runners' metrics, as `sample_groups` does.
        """
        if not iteration - 1 <= self._planned <= iteration + self._ahead:
            self._forget(iteration)  # a restored algorithm is at another iteration
        self._plan(iteration)
        while self._open.get(iteration, 0):
            self._start()
            if not self._running:
                break  # no runner is healthy
            ready, _ = ray.wait(list(self._running), timeout=timeout_s)
            if not ready:
                break
            for reference in ready:
                self._finish(reference)
        self._start()
        parts = self._parts.pop(iteration, [])
        self._open.pop(iteration, None)
        groups = self._groups_of(iteration)
        return merge_batches([batch for batch, _ in parts], groups), [m for _, m in parts]

    def _plan(self, iteration: int) -> None:
        """Deals the groups that may start now into hands of one runner each."""
        count = max(1, self._runners.num_healthy_remote_workers())
        while self._planned < iteration + self._ahead:
            self._planned += 1
            groups = self._groups_of(self._planned)
            hands = [list(groups[k::count]) for k in range(count)]
            self._waiting += [(self._planned, hand) for hand in hands if hand]
            self._open[self._planned] = sum(bool(hand) for hand in hands)

    def _start(self) -> None:
        """Gives each idle runner a hand, the oldest first."""
        busy = {runner for runner, _ in self._running.values()}
        for runner in self._runners.healthy_env_runner_ids():
            if runner not in busy and self._waiting:
                iteration, hand = self._waiting.popleft()
                call = partial(sample_on, groups=hand, sampling=self._sampling)
                actor = self._runners._worker_manager.actors()[runner]
                self._running[actor.apply.remote(call)] = (runner, iteration)

    def _finish(self, reference: Any) -> None:
        runner, iteration = self._running.pop(reference)
        if iteration not in self._open:  # it came after the time limit: its groups are missing
            return
        self._open[iteration] -= 1
        try:
            self._parts.setdefault(iteration, []).append(ray.get(reference))
        except ray.exceptions.RayError:  # its groups are missing; RLlib restarts the runner
            self._runners._worker_manager.set_actor_state(runner, healthy=False)

    def _forget(self, iteration: int) -> None:
        self._waiting.clear()
        self._running.clear()
        self._parts.clear()
        self._open.clear()
        self._planned = iteration - 1
