"""Evaluation on a frozen panel: every task is played, and every finished rollout counts.

The evaluation during training selects the best checkpoint, which biases its success rate upwards.
Reports of a checkpoint therefore draw from different random streams.

::

    runner = local_runner(TRCAConfig().environment("trca/ALFWorld-v0").training(model=folder))
    evaluation = evaluate_panel(runner, runner.panel("valid_unseen").head(64), rollouts=3)
    evaluation.summary()["success_rate"]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from ray.rllib.env.env_runner_group import EnvRunnerGroup
from ray.rllib.utils.metrics import ENV_RUNNER_RESULTS, EVALUATION_RESULTS
from ray.rllib.utils.metrics.metrics_logger import MetricsLogger

from trca.algorithms.base.metrics import rollout_metrics
from trca.algorithms.rollouts.batch import GroupRequest, RolloutBatch
from trca.algorithms.rollouts.env_runner import TextEnvRunner
from trca.algorithms.rollouts.environments import env_creator
from trca.algorithms.rollouts.sampling import sample_groups
from trca.algorithms.settings.policy_config import PolicyConfig
from trca.envs.panel import Panel
from trca.policies.engines import engine_class
from trca.policies.engines.engine import SamplingParams
from trca.records import Rollout, by_agent, episodes
from trca.records.rollout import Failure, Incident


@dataclass(frozen=True)
class Evaluation:
    """Rollouts of a panel, by task and index.

    Missing rollouts are in ``failures``; ``incidents`` has all failures, also the repaired ones.
    """

    panel: Panel
    rollouts: list[Rollout]
    failures: list[Failure]
    incidents: list[Incident] = field(default_factory=list)
    metrics: list[dict[str, Any]] = field(default_factory=list)

    def summary(self) -> dict[str, Any]:
        """Returns metrics by name; ``task_types`` has the success rate and n of each type.

        Rates count finished rollouts; ``missing_rollouts`` is the number of missing rollouts. For a
        team ``roles`` has the metrics of each role.
        """
        by_type: dict[str, list[bool]] = {}
        played = episodes(self.rollouts)
        for rollout in played:
            by_type.setdefault(rollout.task_type, []).append(rollout.won)
        agents = by_agent(self.rollouts)
        roles = {agent: rollout_metrics(own) for agent, own in agents.items()}
        return {
            **rollout_metrics(self.rollouts),
            **({"roles": roles} if len(roles) > 1 else {}),
            "n": len(played),
            "missing_rollouts": sum(f.rollouts for f in self.failures),
            "task_types": {
                name: {"success_rate": float(np.mean(wins)), "n": len(wins)}
                for name, wins in sorted(by_type.items())
            },
        }


def local_runner(
    config: PolicyConfig, runner: Callable[..., TextEnvRunner] = TextEnvRunner
) -> TextEnvRunner:
    """Makes a runner in this process for a model, without Ray and without an algorithm.

    ``runner`` makes it from RLlib's arguments.
    """
    config = config.copy(copy_frozen=False)
    config.in_evaluation = config.in_evaluation or bool(
        engine_class(config.settings.engine).untrainable()
    )
    config.validate()
    creator = env_creator(config.env)
    return runner(config=config, env_creator=creator, worker_index=0, num_workers=0)


def evaluate_panel(
    source: TextEnvRunner | EnvRunnerGroup,
    panel: Panel,
    *,
    rollouts: int = 1,
    seed: int = 0,
    streams: Literal["report", "evaluation"] = "report",
    temperature: float | None = None,
    max_new_tokens: int | None = None,
    live: int = 128,
    timeout_s: float | None = None,
    env_config: Mapping[str, Any] | None = None,
    played: Sequence[Rollout] = (),
    finished: Callable[[Sequence[Rollout]], None] | None = None,
) -> Evaluation:
    """Samples rollouts of every task of a panel; keeps each finished rollout.

    Args:
        source: A local runner, or the runners of an algorithm (``algorithm.env_runner_group``).
        panel: The tasks.
        rollouts: Rollouts of each task.
        seed: Seed of the random streams; the same seed, weights and panel give the same rollouts.
        streams: Name of the random streams; ``evaluation`` is for the evaluation during training.
        temperature: Sampling temperature, 0 for greedy; None means the source's evaluation setting.
        max_new_tokens: Limit on a response; None means the source's setting.
        live: Approximate number of simultaneous episodes, which share the engine's batches.
        timeout_s: Seconds after which a remote runner counts as lost.
        env_config: Changes of the environment's arguments.
        played: Rollouts of an earlier call with these arguments; their tasks are not played again.
        finished: Receives the rollouts of each finished episode at its end; for a local runner.
    """
    config: Any = source.config if isinstance(source, TextEnvRunner) else source._remote_config
    sampling = SamplingParams(
        config.settings.evaluation_temperature if temperature is None else temperature,
        max_new_tokens or config.settings.max_new_tokens,
    )
    options: dict[str, Any] = {"keep_finished": True, "env_config": env_config}
    options["finished"] = finished
    known = {rollout.group for rollout in played}
    groups = [
        GroupRequest(k, task, panel.split, rollouts, (streams, seed), **options)
        for k, task in enumerate(panel.task_ids)
        if k not in known
    ]
    evaluated, metrics = RolloutBatch(list(played)), list[dict[str, Any]]()
    together = max(1, live // rollouts)
    for start in range(0, len(groups), together):
        some = groups[start : start + together]
        if isinstance(source, TextEnvRunner):
            batch = source.sample(groups=some, sampling=sampling)
        else:
            batch, of_runners = sample_groups(source, some, sampling, timeout_s)
            metrics += of_runners
        evaluated.add(batch)
    evaluated.rollouts.sort(key=lambda rollout: (rollout.group, rollout.index))
    return Evaluation(panel, evaluated.rollouts, evaluated.failures, evaluated.incidents, metrics)


def evaluate_algorithm(
    algorithm: Any, eval_env_runner_group: EnvRunnerGroup | None
) -> tuple[dict[str, Any], int, int]:
    """RLlib's ``custom_evaluation_function``: evaluates on the head of the evaluation panel.

    Samples on the evaluation runners, or on the training runners without evaluation runners. The
    summary goes under ``evaluation`` in RLlib's results, metrics of the runners under
    ``evaluation/env_runners``, and the rollouts into ``algorithm.evaluation``.
    """
    config, panel = algorithm.config, algorithm.evaluation_panel
    settings = config.settings
    evaluation = evaluate_panel(
        eval_env_runner_group or algorithm.env_runner_group,
        panel,
        rollouts=settings.evaluation_rollouts,
        seed=config.seed or 0,
        streams="evaluation",
        live=settings.tasks_per_iteration * settings.group_size,
        timeout_s=config.evaluation_sample_timeout_s or settings.sample_timeout_s,
        env_config=config.evaluation_env_config,
    )
    algorithm.evaluation = evaluation
    summary = evaluation.summary()
    logger = MetricsLogger()
    logger.log_dict(summary, reduce="mean", window=1)
    logger.log_value("panel_hash", panel.hash, reduce="item")
    steps = sum(r.env_steps() for r in evaluation.rollouts)
    algorithm.metrics.aggregate([logger.reduce()], key=EVALUATION_RESULTS)
    algorithm.metrics.aggregate(evaluation.metrics, key=(EVALUATION_RESULTS, ENV_RUNNER_RESULTS))
    return summary, steps, steps
