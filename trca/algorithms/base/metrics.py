"""Metrics of an iteration, under their names in RLlib's results.

========================= =========================================================================
name                      meaning
========================= =========================================================================
success_rate              share of rollouts that completed their task
success_low, success_high ends of the 95% interval of success_rate, of an evaluation in a run folder
score                     mean of the environment's own score
episode_length            mean steps of an episode, of all roles of a team
measures/<name>           mean of other results of the environment at the end, such as f1
teacher/<name>            the results above, of the demonstrator or of recorded rollouts, in an
                          iteration of Imitation in which the policy does not play
parsed_ratio              share of steps whose response held an action
valid_action_ratio        share of steps whose action the environment carried out
response_length           mean tokens of a response
frac_success_free_groups  share of groups without a single success
frac_zero_advantage       share of steps with advantage 0
foundational_reward       mean r^F of a step
breakthrough_reward       mean r^B of a step
operators/<id>            share of steps on which the operator fires
explained_variance        share of the variance of the critic's targets that its values explained
roles/<role>/<name>       in a team, the metrics above for a role's steps; without <role>, the mean
                          over the roles, except for operators
policies/<id>/<name>      with several policies, the metrics of learning below for each policy;
                          without <id>, the mean over the policies
gold_in_training          1 if the credit rule reads the right answers or passages, else 0
context_group_size        mean, over steps, of the size of the step's context group, even
                          if step_group is stage
missing_rollouts          rollouts lost for a technical reason (never counted as failures)
left_out_rollouts         rollouts without advantages, left out of the update
refilled_groups           replacements of groups without any advantage
replayed_rollouts         rollouts of earlier iterations in the update
skipped_iterations        iterations so far without a single rollout
panel_hash                hash of the training panel
tokens_per_second         response tokens by seconds of generation
policy, loss              clipped surrogate, and the complete objective
ratio_mean, ratio_max     importance ratio, over the actions of all updates
clip_ratio                share of ratios at which the clip stops the gradient
approx_kl                 KL of the old policy to the new one on action tokens
mismatch_kl               the same before any update: sampler against trainer
mismatch_ratio            mean ratio of trainer to sampler of a token, before any update
mismatch_ratio_max        largest ratio of trainer to sampler of a token, before any update
mismatch_below            share of tokens that are likelier for the sampler than for the trainer
masked_tokens             share of action tokens outside of token_ratio_band
masked_steps              share of steps with an action outside of action_ratio_band
staleness                 mean number of updates between the weights that sampled a step and the
                          trainer's
staleness_max             largest number of updates between sampling and training weights
push_difference           largest difference of a log-probability between an engine and the
                          trainer, on a fixed prompt, after the push of weights
kl, kl_format             KL to the reference, on action and on the other response tokens; 0 where
                          the coefficient is 0 and nothing is compared
entropy                   mean entropy at action tokens, in nats
grad_norm                 gradient norm before the clip
skipped_updates           updates left out because loss or gradient was not finite
lr                        learning rate of the last update
value_loss                mean squared error of the critic's values, clipped
value_clip_ratio          share of values whose gradient the clip stops
critic_grad_norm          gradient norm of the critic's weights before the clip
memory_mb/<process>       memory of driver, runners and learners alone, without what processes
                          share, such as Ray's object store; of the largest of each;
                          runners and learners in the driver's process are the driver's
timing/<phase>            seconds in generation, environment, judging, credit, learning and sync;
                          of the slowest runner where several sample
========================= =========================================================================

Metrics of learning are means over the mini-batches that have a counted token, weighted by row
within each; nan where none has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trca.algorithms.credit.arithmetic import joint_codes
from trca.algorithms.learner.update_metrics import mean_of
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
    rollouts: Sequence[Rollout],
    batch: StepBatch,
    budgets: Budgets,
    operator_ids: Sequence[str],
) -> dict[str, Any]:
    """Returns the metrics of rubric and credit.

    Args:
        rollouts: The rollouts, with their advantages.
        batch: Their columns.
        budgets: Category budgets of r^F and r^B.
        operator_ids: Names of the operators, in library order.
    """
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
