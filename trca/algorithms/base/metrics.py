"""Metrics of an iteration, under their names in RLlib's results; ``docs/metrics.md`` lists all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trca.algorithms.credit.arithmetic import joint_codes
from trca.algorithms.learner.policy_updater import mean_of
from trca.records import Rollout, StepBatch, advantages_of, episodes
from trca.rubric import Budgets

_NAN = float("nan")


def rollout_metrics(rollouts: Sequence[Rollout]) -> dict[str, Any]:
    """Returns the metrics of rollouts, without rubric and credit; nan without rollouts."""
    names = sorted({name for rollout in rollouts for name in rollout.measures})
    played = episodes(rollouts)
    measures = {
        name: _mean([r.measures[name] for r in played if name in r.measures]) for name in names
    }
    steps = [step for rollout in rollouts for step in rollout.steps]
    return {
        "success_rate": _mean([r.won for r in played]),
        "score": _mean([r.score for r in played]),
        "episode_length": len(steps) / len(played) if played else _NAN,
        "parsed_ratio": _mean([s.parsed for s in steps]),
        "valid_action_ratio": _mean([s.accepted for s in steps]),
        "response_length": _mean([len(s.response_ids) for s in steps]),
        **({"measures": measures} if measures else {}),
    }


def credit_metrics(
    rollouts: Sequence[Rollout], batch: StepBatch, budgets: Budgets, operator_ids: Sequence[str]
) -> dict[str, Any]:
    """Returns the metrics of rubric and credit of rollouts with advantages."""
    wins: dict[int, bool] = {}
    for rollout in rollouts:
        wins[rollout.group] = wins.get(rollout.group, False) or rollout.won
    contexts = joint_codes(batch.group, batch.context)
    metrics: dict[str, Any] = {
        "frac_success_free_groups": _mean([not won for won in wins.values()]),
        "frac_zero_advantage": _mean(advantages_of(rollouts) == 0.0),
        "context_group_size": _mean(np.bincount(contexts)[contexts]),
    }
    if operator_ids:
        rewards = batch.rubric_rewards(budgets)
        metrics["foundational_reward"] = _mean(rewards.foundational)
        metrics["breakthrough_reward"] = _mean(rewards.breakthrough)
        rates = map(_mean, batch.judgments.T)
        metrics["operators"] = dict(zip(operator_ids, rates, strict=True))
    return metrics


def means(metrics: Sequence[dict[str, float]]) -> dict[str, float]:
    """The mean of each metric over the dictionaries that have a value of it."""
    if len(metrics) == 1:
        return metrics[0]
    names = dict.fromkeys(name for each in metrics for name in each)
    return {name: mean_of([each.get(name, _NAN) for each in metrics]) for name in names}


def _mean(values: Any) -> float:
    return float(np.mean(values)) if len(values) else _NAN
