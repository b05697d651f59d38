"""Spreads rollout groups over the env runners that are healthy and gathers what they played."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from ray.rllib.env.env_runner_group import EnvRunnerGroup

from trca.algorithms.player import Failure, GroupRequest, Played
from trca.algorithms.text_env_runner import TextEnvRunner
from trca.policies.engines.engine import Sampling

LOST = "the env runner that played it was lost or too slow"


def sample_groups(
    runners: EnvRunnerGroup,
    groups: Sequence[GroupRequest],
    sampling: Sampling,
    timeout_s: float | None,
) -> tuple[Played, list[dict[str, Any]]]:
    """Plays the groups on the remote runners, or on the local one where there are none.

    The groups are dealt in turn, so what is sampled does not depend on the number of runners. A
    runner that dies or is too slow costs its groups alone.

    Args:
        runners: RLlib's set of runners.
        groups: The groups to play.
        sampling: How to sample.
        timeout_s: Seconds after which a runner counts as lost.

    Returns:
        What was played (seconds are those of the slowest runner), and the runners' metrics.
    """
    parts: list[tuple[Played, dict[str, Any]]] = []
    local: Any = runners.local_env_runner
    remote = runners.num_remote_env_runners() > 0
    ids = runners.healthy_env_runner_ids()[: len(groups)]
    if remote and ids:
        hands = [groups[k :: len(ids)] for k in range(len(ids))]
        calls: Any = [partial(_sample, groups=hand, sampling=sampling) for hand in hands]
        parts = runners.foreach_env_runner(
            calls,
            local_env_runner=False,
            remote_worker_ids=ids,
            timeout_seconds=timeout_s,
        )
    elif not remote:
        parts = [_sample(local, groups, sampling)]
    return _merge([played for played, _ in parts], groups), [metrics for _, metrics in parts]


def _sample(
    runner: TextEnvRunner, groups: Sequence[GroupRequest], sampling: Sampling
) -> tuple[Played, dict[str, Any]]:
    return runner.sample(groups=groups, sampling=sampling), runner.get_metrics()


def _merge(parts: list[Played], groups: Sequence[GroupRequest]) -> Played:
    merged = Played()
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
