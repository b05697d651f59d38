"""Distributes rollout groups over the env runners, at once or ahead of the learners."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import ray
from ray.rllib.env.env_runner_group import EnvRunnerGroup

from trca.algorithms.rollouts.batch import GroupRequest, RolloutBatch
from trca.algorithms.rollouts.env_runner import TextEnvRunner, error_link
from trca.common.errors import first_line
from trca.common.process import last_errors
from trca.policies.engines.engine import SamplingParams
from trca.records.rollout import Failure, Incident

logger = logging.getLogger(__name__)

LOST: Final = "its env runner was lost or too slow"
_PING_S: Final = 1.0

_Result = tuple[RolloutBatch, dict[str, Any]]
"""The rollouts of a runner, and the runner's metrics."""


def sample_groups(
    runners: EnvRunnerGroup,
    groups: Sequence[GroupRequest],
    sampling: SamplingParams,
    timeout_s: float | None,
) -> tuple[RolloutBatch, list[dict[str, Any]]]:
    """Samples the groups on the remote runners, or on the local runner without remote runners.

    The rollouts do not depend on the number of runners. If a runner dies or exceeds ``timeout_s``,
    the remaining runners sample its groups again; a slow runner is killed, and RLlib restarts it.

    Returns the rollouts with the seconds of the slowest runner, and the metrics of the runners.
    """
    if runners.num_remote_env_runners() == 0:
        local: Any = runners.local_env_runner
        return _merge([_sample_on(local, groups, sampling)], groups)
    return SamplingAhead(runners, lambda _: groups, sampling, 0, 0).take(0, timeout_s)


class _Share(NamedTuple):
    """Groups of an iteration for one runner; ``is_retry`` if a lost runner had the groups."""

    iteration: int
    number: int
    groups: Sequence[GroupRequest]
    is_retry: bool


class SamplingAhead:
    """Keeps every env runner busy with complete groups of the current and later iterations.

    Groups of iteration i start when the learners are at iteration i - ``max_staleness`` or later.
    A step is therefore at most ``max_staleness`` updates old when a learner trains on it. An
    iteration waits for all its groups, so that long rollouts stay in it. The groups of a runner
    that dies or exceeds its time are sampled once more on the other runners; after a second failure
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
        """Starts idle at iteration ``first``, with at least one remote runner."""
        self._runners = runners
        self._groups_of = groups_of
        self._sampling = sampling
        self._ahead = max_staleness
        self._waiting: deque[_Share] = deque()
        self._running: dict[Any, tuple[int, _Share, float]] = {}
        self._results: dict[tuple[int, int], _Result] = {}
        self._incidents: list[Incident] = []
        self._planned = first - 1
        self._cut = 0

    def take(
        self, iteration: int, timeout_s: float | None
    ) -> tuple[RolloutBatch, list[dict[str, Any]]]:
        """Waits for the groups of the next iteration, as `sample_groups`; later groups continue."""
        while self._planned < iteration + self._ahead:
            self._planned += 1
            self._waiting += self._shares(self._planned, self._groups_of(self._planned))
        self._start()
        while self._running and any(
            share.iteration == iteration
            for share in (*self._waiting, *(share for _, share, _ in self._running.values()))
        ):
            self._wait(timeout_s)
            self._start()
        later = deque(share for share in self._waiting if share.iteration > iteration)
        if len(later) < len(self._waiting):
            self._note("all", "none is left", "dropped")
        self._waiting = later
        keys = sorted(key for key in self._results if key[0] == iteration)
        results = [self._results.pop(key) for key in keys]
        merged, metrics = _merge(results, self._groups_of(iteration))
        merged.incidents += self._incidents
        self._incidents = []
        return merged, metrics

    def _shares(
        self, iteration: int, groups: Sequence[GroupRequest], is_retry: bool = False
    ) -> list[_Share]:
        """Divides groups into one share for each healthy runner."""
        count = max(1, self._runners.num_healthy_remote_workers())
        shares = [groups[k::count] for k in range(min(count, len(groups)))]
        first, self._cut = self._cut, self._cut + len(shares)
        return [_Share(iteration, n, share, is_retry) for n, share in enumerate(shares, first)]

    def _start(self) -> None:
        """Gives each idle runner a share, the oldest first."""
        busy = {runner for runner, _, _ in self._running.values()}
        for runner in self._runners.healthy_env_runner_ids():
            if runner not in busy and self._waiting:
                share = self._waiting.popleft()
                call = partial(_sample_on, groups=share.groups, sampling=self._sampling)
                actor = self._runners._worker_manager.actors()[runner]
                self._running[actor.apply.remote(call)] = (runner, share, time.monotonic())

    def _wait(self, timeout_s: float | None) -> None:
        """Waits for a result, or until the time of a runner is over."""
        rest_s = None
        if timeout_s is not None:
            first = min(start for _, _, start in self._running.values())
            rest_s = max(0.0, first + timeout_s - time.monotonic())
        ready, _ = ray.wait(list(self._running), timeout=rest_s)
        manager = self._runners._worker_manager
        for reference in ready:
            runner, share, _ = self._running.pop(reference)
            try:
                self._results[share.iteration, share.number] = ray.get(reference)
            except ray.exceptions.RayError as error:
                if not self._runners._ignore_ray_errors_on_env_runners:
                    raise
                manager.set_actor_state(runner, healthy=False)
                self._lose(runner, share, first_line(error))
        if ready or timeout_s is None:
            return
        for reference, (runner, share, start) in list(self._running.items()):
            if time.monotonic() >= start + timeout_s:
                del self._running[reference]
                # Its late rollouts would keep the runner busy. RLlib restarts it.
                ray.kill(manager.actors()[runner], no_restart=False)
                manager.set_actor_state(runner, healthy=False)
                self._runners._num_env_runners_dropped_lifetime += 1
                self._lose(runner, share, f"no result in {timeout_s:g} s")

    def _lose(self, runner: int, share: _Share, reason: str) -> None:
        """Puts the groups of a lost runner first in the queue; drops a retry."""
        if not share.is_retry:
            retries = self._shares(share.iteration, share.groups, is_retry=True)
            self._waiting.extendleft(reversed(retries))
        self._note(str(runner), LOST, "dropped" if share.is_retry else "retried")
        config: Any = self._runners._remote_config
        errors = last_errors(error_link(config, runner)) if config.run_folder else ""
        words = f"\nlast lines of env runner {runner}:\n{errors}" if errors else ""
        logger.warning("env runner %d: %s: %s%s", runner, LOST, reason, words)

    def _note(self, which: str, reason: str, action: str) -> None:
        self._incidents.append(Incident(time.time(), "env runner", which, "", reason, action))


def _sample_on(
    runner: TextEnvRunner, groups: Sequence[GroupRequest], sampling: SamplingParams
) -> _Result:
    return runner.sample(groups=groups, sampling=sampling), runner.get_metrics()


def _merge(
    results: Sequence[_Result], groups: Sequence[GroupRequest]
) -> tuple[RolloutBatch, list[dict[str, Any]]]:
    """Merges the results of several runners; groups without a result are missing."""
    merged = RolloutBatch()
    for batch, _ in results:
        merged.add(batch, max)
    back = {r.group for r in merged.rollouts} | {f.group for f in merged.failures}
    merged.failures += [
        Failure(g.group, g.task_id, g.size, LOST) for g in groups if g.group not in back
    ]
    merged.rollouts.sort(key=lambda r: (r.group, r.index))
    merged.failures.sort(key=lambda f: f.group)
    return merged, [metrics for _, metrics in results]


def wait_for_one(runners: EnvRunnerGroup, timeout_s: float) -> None:
    """Waits up to ``timeout_s`` until a restarted remote runner answers, if none is in service."""
    actors = runners._worker_manager.actors().values()
    if not actors or runners.num_healthy_remote_workers():
        return
    logger.warning("no env runner is left: waiting up to %g s for one", timeout_s)
    end, restarting = time.monotonic() + timeout_s, True
    while restarting and time.monotonic() < end:
        restarting = False
        for actor in actors:
            try:
                ray.get(actor.ping.remote(), timeout=_PING_S)
                return
            except ray.exceptions.ActorDiedError:
                continue
            except (ray.exceptions.RayActorError, ray.exceptions.GetTimeoutError):
                restarting = True
        time.sleep(_PING_S)
