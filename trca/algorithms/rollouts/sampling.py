"""Distributes rollout groups over the healthy env runners and gathers their rollouts."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import ray
from ray.rllib.env.env_runner_group import EnvRunnerGroup

from trca.algorithms.rollouts.batch import GroupRequest, RolloutBatch
from trca.algorithms.rollouts.env_runner import TextEnvRunner, error_link
from trca.common.process import last_errors
from trca.policies.engines.engine import SamplingParams
from trca.records.failures import Failure, Incident

logger = logging.getLogger(__name__)

LOST: Final = "its env runner was lost or too slow"
_PING_S: Final = 1.0


def sample_groups(
    runners: EnvRunnerGroup,
    groups: Sequence[GroupRequest],
    sampling: SamplingParams,
    timeout_s: float | None,
) -> tuple[RolloutBatch, list[dict[str, Any]]]:
    """Samples the groups on the remote runners, or on the local runner without remote runners.

    The rollouts do not depend on the number of runners. If a runner dies or exceeds its time, the
    remaining runners sample its groups again; a slow runner is killed, and RLlib restarts it.

    Args:
        runners: RLlib's set of runners.
        groups: The groups.
        sampling: Temperature and limits.
        timeout_s: Seconds after which a runner counts as lost.

    Returns:
        The rollouts with the seconds of the slowest runner, and the runners' metrics.
    """
    if runners.num_remote_env_runners() == 0:
        local: Any = runners.local_env_runner
        batch, metrics = sample_on(local, groups, sampling)
        return merge_batches([batch], groups), [metrics]
    ids = runners.healthy_env_runner_ids()[: len(groups)]
    parts, back = _sample_on_all(runners, ids, groups, sampling, timeout_s)
    lost = [runner for runner in ids if runner not in back]
    missing = [group for k, group in enumerate(groups) if ids and ids[k % len(ids)] in lost]
    incidents = [lost_runner(k, "retried" if back else "dropped") for k in lost]
    if lost:
        logger.warning("env runners %s: %s%s", lost, LOST, _last_words(runners, lost))
        take_out(runners, lost)
        helpers = back[: len(missing)]
        retried, back = _sample_on_all(runners, helpers, missing, sampling, timeout_s)
        parts += retried
        lost = [runner for runner in helpers if runner not in back]
        take_out(runners, lost)
        incidents += [lost_runner(k, "dropped") for k in lost]
    elif not ids:
        incidents = [no_runner_left()]
    merged = merge_batches([batch for batch, _ in parts], groups)
    merged.incidents += incidents
    return merged, [metrics for _, metrics in parts]


def _last_words(runners: EnvRunnerGroup, lost: Sequence[int]) -> str:
    """The last lines that lost runners of this machine wrote: the cause of a lost process."""
    config: Any = runners._remote_config
    errors = {k: last_errors(error_link(config, k)) for k in lost if config.run_folder}
    return "".join(f"\nlast lines of env runner {k}:\n{text}" for k, text in errors.items() if text)


def _sample_on_all(
    runners: EnvRunnerGroup,
    ids: Sequence[int],
    groups: Sequence[GroupRequest],
    sampling: SamplingParams,
    timeout_s: float | None,
) -> tuple[list[tuple[RolloutBatch, dict[str, Any]]], list[int]]:
    """Returns the batches and metrics of some runners, and the runners that answered."""
    if not ids:
        return [], []
    calls: Any = [
        partial(_numbered, number=k, groups=groups[k :: len(ids)], sampling=sampling)
        for k in range(len(ids))
    ]
    results: list[Any] = runners.foreach_env_runner(
        calls,
        local_env_runner=False,
        remote_worker_ids=list(ids),
        timeout_seconds=timeout_s,
    )
    return [(batch, metrics) for _, batch, metrics in results], [ids[k] for k, _, _ in results]


def sample_on(
    runner: TextEnvRunner, groups: Sequence[GroupRequest], sampling: SamplingParams
) -> tuple[RolloutBatch, dict[str, Any]]:
    """Samples groups on one runner; returns the rollouts and the runner's metrics."""
    return runner.sample(groups=groups, sampling=sampling), runner.get_metrics()


def _numbered(
    runner: TextEnvRunner, number: int, groups: Sequence[GroupRequest], sampling: SamplingParams
) -> tuple[int, RolloutBatch, dict[str, Any]]:
    return number, *sample_on(runner, groups, sampling)


def lost_runner(number: int, action: str) -> Incident:
    """The incident of a lost runner.

    Args:
        number: Number of the runner.
        action: Treatment of its groups: ``retried`` or ``dropped``.
    """
    return Incident(time.time(), "env runner", str(number), "", LOST, action)


def no_runner_left() -> Incident:
    """The incident of groups without a runner."""
    return Incident(time.time(), "env runner", "all", "", "none is left", "dropped")


def take_out(runners: EnvRunnerGroup, lost: Sequence[int]) -> None:
    """Takes lost runners out of service until RLlib has restarted them.

    Slow runners are killed: their late rollouts would keep them busy.
    """
    manager = runners._worker_manager
    for runner in set(lost) & set(runners.healthy_env_runner_ids()):
        ray.kill(manager.actors()[runner], no_restart=False)
        manager.set_actor_state(runner, healthy=False)


def wait_for_one(runners: EnvRunnerGroup, timeout_s: float) -> None:
    """Waits until a restarted remote runner answers if no remote runner is in service.

    Args:
        runners: RLlib's set of runners.
        timeout_s: Longest time to wait, in seconds.
    """
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


def merge_batches(parts: list[RolloutBatch], groups: Sequence[GroupRequest]) -> RolloutBatch:
    """Merges the batches of several runners; groups without a result are missing.

    Args:
        parts: The batches.
        groups: The groups that the runners had to sample.
    """
    merged = RolloutBatch()
    for part in parts:
        merged.add_parallel(part)
    back = {r.group for r in merged.rollouts} | {f.group for f in merged.failures}
    merged.failures += [
        Failure(g.group, g.task_id, g.size, LOST) for g in groups if g.group not in back
    ]
    merged.rollouts.sort(key=lambda r: (r.group, r.index))
    merged.failures.sort(key=lambda f: f.group)
    return merged
