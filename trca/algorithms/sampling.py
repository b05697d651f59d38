"""Spreads rollout groups over the healthy env runners and gathers their rollouts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from ray.rllib.env.env_runner_group import EnvRunnerGroup

from trca.algorithms.rollout import Failure, GroupRequest, RolloutBatch
from trca.algorithms.text_env_runner import TextEnvRunner
from trca.policies.engines.engine import SamplingParams

LOST = "its env runner was lost or too slow"


def sample_groups(
    runners: EnvRunnerGroup,
    groups: Sequence[GroupRequest],
    sampling: SamplingParams,
    timeout_s: float | None,
) -> tuple[RolloutBatch, list[dict[str, Any]]]:
    """Samples the groups on the remote runners, or on the local one where there are none.

    What is sampled does not depend on the number of runners. A runner that dies or is too slow
    costs its own groups alone.

    Args:
        runners: RLlib's set of runners.
        groups: The groups.
        sampling: Temperature and limits.
        timeout_s: Seconds after which a runner counts as lost.

    Returns:
        The rollouts (seconds are those of the slowest runner), and the runners' metrics.
    """
    parts: list[tuple[RolloutBatch, dict[str, Any]]] = []
    local: Any = runners.local_env_runner
    remote = runners.num_remote_env_runners() > 0
    ids = runners.healthy_env_runner_ids()[: len(groups)]
    if remote and ids:
        hands = [groups[k :: len(ids)] for k in range(len(ids))]
        calls: Any = [partial(sample_on, groups=hand, sampling=sampling) for hand in hands]
        parts = runners.foreach_env_runner(
            calls,
            local_env_runner=False,
            remote_worker_ids=ids,
            timeout_seconds=timeout_s,
        )
    elif not remote:
        parts = [sample_on(local, groups, sampling)]
    return merge_batches([batch for batch, _ in parts], groups), [metrics for _, metrics in parts]


def sample_on(
    runner: TextEnvRunner, groups: Sequence[GroupRequest], sampling: SamplingParams
) -> tuple[RolloutBatch, dict[str, Any]]:
    """Samples groups on one runner; returns the rollouts and the runner's metrics."""
    return runner.sample(groups=groups, sampling=sampling), runner.get_metrics()


def merge_batches(parts: list[RolloutBatch], groups: Sequence[GroupRequest]) -> RolloutBatch:
    """Puts the rollouts of several runners together; groups that are not there are missing."""
    merged = RolloutBatch()
    for part in parts:
        merged.rollouts += part.rollouts
        merged.failures += part.failures
        for name, seconds in part.seconds.items():
            merged.seconds[name] = max(merged.seconds[name], seconds)
    back = {r.group for r in merged.rollouts} | {f.group for f in merged.failures}
    merged.failures += [
        Failure(g.group, g.task_id, g.size, LOST) for g in groups if g.group not in back
    ]
    merged.rollouts.sort(key=lambda r: (r.group, r.index))
    merged.failures.sort(key=lambda f: f.group)
    return merged
