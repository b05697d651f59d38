"""Samples later iterations while the learners update: asynchronous, with a bound on staleness."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import ray
from ray.rllib.env.env_runner_group import EnvRunnerGroup

from trca.algorithms.rollouts.batch import GroupRequest, RolloutBatch
from trca.algorithms.rollouts.sampling import (
    lost_runner,
    merge_batches,
    no_runner_left,
    sample_on,
    take_out,
)
from trca.policies.engines.engine import SamplingParams
from trca.records.failures import Incident


@dataclass(frozen=True)
class _Hand:
    """Groups of an iteration for one runner."""

    iteration: int
    groups: Sequence[GroupRequest]
    tries: int = 1


class SamplingAhead:
    """Keeps every env runner busy with whole groups of this iteration and the next ones.

    Groups of iteration i start when the learners are at iteration i - ``max_staleness`` or later,
    so no step is older than ``max_staleness`` updates when it is trained on. All groups of an
    iteration are waited for: long rollouts are not passed over for short ones. The groups of a
    runner that dies or is too slow are sampled once more on another one, and then missing.
    """

    def __init__(
        self,
        runners: EnvRunnerGroup,
        groups_of: Callable[[int], Sequence[GroupRequest]],
        sampling: SamplingParams,
        max_staleness: int,
        first: int,
    ) -> None:
        """Starts idle.

        Args:
            runners: RLlib's set of runners; at least one is remote.
            groups_of: The groups of an iteration.
            sampling: Temperature and limits.
            max_staleness: How many iterations sampling may be ahead.
            first: Number of the first iteration to take.
        """
        self._runners = runners
        self._groups_of = groups_of
        self._sampling = sampling
        self._ahead = max_staleness
        self._waiting: deque[_Hand] = deque()
        self._running: dict[Any, tuple[int, _Hand]] = {}
        self._parts: dict[int, list[tuple[RolloutBatch, dict[str, Any]]]] = {}
        self._incidents: list[Incident] = []
        self._now = first
        self._planned = first - 1

    def take(
        self, iteration: int, timeout_s: float | None
    ) -> tuple[RolloutBatch, list[dict[str, Any]]]:
        """Waits for the groups of an iteration; later ones go on.

        Args:
            iteration: Number of the iteration that the learners are at: the one after the last.
            timeout_s: Seconds without any result after which the runners at work count as lost.

        Returns:
            The rollouts and the runners' metrics, as `sample_groups` does.
        """
        self._now = iteration
        self._plan()
        while self._lacks_some():
            self._start()
            if not self._running:
                break  # no runner is healthy
            ready, _ = ray.wait(list(self._running), timeout=timeout_s)
            for reference in ready:
                self._finish(reference)
            if not ready:
                self._give_up()
        self._drop_rest()
        self._start()
        parts = self._parts.pop(iteration, [])
        merged = merge_batches([batch for batch, _ in parts], self._groups_of(iteration))
        merged.incidents += self._incidents
        self._incidents = []
        return merged, [metrics for _, metrics in parts]

    def _plan(self) -> None:
        """Deals the groups that may start now into hands of one runner each."""
        count = max(1, self._runners.num_healthy_remote_workers())
        while self._planned < self._now + self._ahead:
            self._planned += 1
            groups = self._groups_of(self._planned)
            hands = [groups[k::count] for k in range(count)]
            self._waiting += [_Hand(self._planned, hand) for hand in hands if hand]

    def _lacks_some(self) -> bool:
        """Whether groups of this iteration wait or are being sampled."""
        hands = [*self._waiting, *(hand for _, hand in self._running.values())]
        return any(hand.iteration == self._now for hand in hands)

    def _start(self) -> None:
        """Gives each idle runner a hand, the oldest first."""
        busy = {runner for runner, _ in self._running.values()}
        for runner in self._runners.healthy_env_runner_ids():
            if runner not in busy and self._waiting:
                hand = self._waiting.popleft()
                call = partial(sample_on, groups=hand.groups, sampling=self._sampling)
                actor = self._runners._worker_manager.actors()[runner]
                self._running[actor.apply.remote(call)] = (runner, hand)

    def _finish(self, reference: Any) -> None:
        runner, hand = self._running.pop(reference)
        try:
            self._parts.setdefault(hand.iteration, []).append(ray.get(reference))
        except ray.exceptions.RayError:
            self._runners._worker_manager.set_actor_state(runner, healthy=False)
            self._lose(runner, hand)

    def _give_up(self) -> None:
        """Counts all runners at work as lost."""
        running, self._running = list(self._running.values()), {}
        take_out(self._runners, [runner for runner, _ in running])
        for runner, hand in running:
            self._lose(runner, hand)

    def _lose(self, runner: int, hand: _Hand) -> None:
        """Puts the hand of a lost runner first in line, unless it was lost before."""
        if hand.tries == 1:
            self._waiting.appendleft(replace(hand, tries=2))
        self._incidents.append(lost_runner(runner, "retried" if hand.tries == 1 else "dropped"))

    def _drop_rest(self) -> None:
        """Drops the hands of this iteration that no runner is left for."""
        later = deque(hand for hand in self._waiting if hand.iteration > self._now)
        if len(later) < len(self._waiting):
            self._incidents.append(no_runner_left())
        self._waiting = later
