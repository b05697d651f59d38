"""Samples later iterations during updates, with a bound on the age of the weights."""

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
class _Share:
    """Groups of an iteration for one runner.

    Attributes:
        iteration: Number of the iteration.
        groups: The groups.
        is_retry: Whether a lost runner had the groups before.
    """

    iteration: int
    groups: Sequence[GroupRequest]
    is_retry: bool = False


class SamplingAhead:
    """Keeps every env runner busy with complete groups of the current and later iterations.

    Groups of iteration i start when the learners are at iteration i - ``max_staleness`` or later.
    A step is therefore at most ``max_staleness`` updates old when a learner trains on it. An
    iteration waits for all its groups, so that long rollouts stay in it. The groups of a runner
    that dies or exceeds its time are sampled once more on another runner; after a second failure
    they are missing.
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
            groups_of: Returns the groups of an iteration.
            sampling: Temperature and limits.
            max_staleness: Number of iterations that sampling may be ahead.
            first: Number of the first iteration.
        """
        self._runners = runners
        self._groups_of = groups_of
        self._sampling = sampling
        self._ahead = max_staleness
        self._waiting: deque[_Share] = deque()
        self._running: dict[Any, tuple[int, _Share]] = {}
        self._parts: dict[int, list[tuple[RolloutBatch, dict[str, Any]]]] = {}
        self._incidents: list[Incident] = []
        self._now = first
        self._planned = first - 1

    def take(
        self, iteration: int, timeout_s: float | None
    ) -> tuple[RolloutBatch, list[dict[str, Any]]]:
        """Waits for the groups of an iteration; later groups continue.

        Args:
            iteration: Number of the learners' iteration, one more than in the last call.
            timeout_s: Seconds without any result after which the busy runners count as lost.

        Returns:
            The rollouts and the runners' metrics, as from `sample_groups`.
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
        """Divides the groups that may start now into shares of one runner each."""
        count = max(1, self._runners.num_healthy_remote_workers())
        while self._planned < self._now + self._ahead:
            self._planned += 1
            groups = self._groups_of(self._planned)
            shares = [groups[k::count] for k in range(count)]
            self._waiting += [_Share(self._planned, share) for share in shares if share]

    def _lacks_some(self) -> bool:
        """Whether groups of this iteration wait or are being sampled."""
        shares = [*self._waiting, *(share for _, share in self._running.values())]
        return any(share.iteration == self._now for share in shares)

    def _start(self) -> None:
        """Gives each idle runner a share, the oldest first."""
        busy = {runner for runner, _ in self._running.values()}
        for runner in self._runners.healthy_env_runner_ids():
            if runner not in busy and self._waiting:
                share = self._waiting.popleft()
                call = partial(sample_on, groups=share.groups, sampling=self._sampling)
                actor = self._runners._worker_manager.actors()[runner]
                self._running[actor.apply.remote(call)] = (runner, share)

    def _finish(self, reference: Any) -> None:
        runner, share = self._running.pop(reference)
        try:
            self._parts.setdefault(share.iteration, []).append(ray.get(reference))
        except ray.exceptions.RayError:
            self._runners._worker_manager.set_actor_state(runner, healthy=False)
            self._lose(runner, share)

    def _give_up(self) -> None:
        """Counts all busy runners as lost."""
        running, self._running = list(self._running.values()), {}
        take_out(self._runners, [runner for runner, _ in running])
        for runner, share in running:
            self._lose(runner, share)

    def _lose(self, runner: int, share: _Share) -> None:
        """Puts the share of a lost runner first in the queue; drops a retry."""
        if not share.is_retry:
            self._waiting.appendleft(replace(share, is_retry=True))
        self._incidents.append(lost_runner(runner, "dropped" if share.is_retry else "retried"))

    def _drop_rest(self) -> None:
        """Drops the shares of this iteration that have no runner."""
        later = deque(share for share in self._waiting if share.iteration > self._now)
        if len(later) < len(self._waiting):
            self._incidents.append(no_runner_left())
        self._waiting = later
