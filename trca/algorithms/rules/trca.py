"""TRCA: outcome credit of the rollout plus rubric-enhanced credit of the transition.

::

    R_{i,t} = sum_{k >= t} gamma^(k-t) (c r_{i,k} + b r^TRCA_{i,k})   (Eq. app_completion_return)
    A^E(tau_i) = Norm over the rollouts of the group of R(tau_i)      (Eq. app_episode_advantage)
    A^S(a_{i,t}) = Norm over the context group of R_{i,t}             (Eq. app_step_advantage)
    A^TRCA_{i,t} = A^E(tau_i) + A^S(a_{i,t})                          (Eq. app_final_advantage)
    Norm(z) = (z - mean) / (std + epsilon), 0 where std = 0           (Eq. app_normalization)

with R(tau_i) = sum_t r_{i,t} and r^TRCA = (1 - lambda) r^F + lambda r^B from `trca.rubric.rewards`;
the paper has c = 1 and b = 1.

Where this differs from the paper, or the paper is silent:

=======================  ===========================================================================
Group of A^E             Rollouts, one value each, however long they are (the paper's definition;
                         public code of the family counts a rollout once for every step).
Context group of A^S     Transitions of the same rollout group with the same context key, revisits
                         within a rollout included: Eq. step_group runs over i <= N, one group.
Standard deviation       ddof 0, epsilon 1e-6: the paper names neither.
Zero variance            Values within 1e-12 of each other; rounding can make std > 0.
Context group of one     A^S = 0, as zero variance.
Budgets                  A parameter; the paper gives no values.
Outcome and rubric       The paper leaves the relative weight of outcome and rubric open. Here the
                         outcome has the weight c = ``outcome_scale`` in R; A^E is normalised and
                         does not depend on c. Public code usually has 10 with budgets of 1, which
                         equals 1 with budgets of 0.1.
Late in training         ``budget_schedule: group_success`` sets b to the share of the group's
                         rollouts that failed: 1 without a success, 0 if all succeed. The share is
                         known only after the rollouts, so r^F and r^B of infos, rollout files and
                         metrics have b = 1. The runs TRCA-scheduled and TRCA-plan of
                         ``docs/results.md`` use this schedule with the same settings.
Stages                   ``step_group: stage``, an extension of this project: BEACON's segments
                         (``milestones: execution``) with TRCA's rewards. The stage of a step is the
                         number of earlier steps of its rollout at which an Execution operator fires
                         for the first time. R ends with the stage, so a step gets no credit for
                         rewards of later stages. A^S compares steps of the same rollout group and
                         stage. The row TRCA-stages of ``docs/results.md`` also has gamma 0.6.
Truncated episode        An episode like any other: R(tau) = 0, and its return ends at the last step
                         (no bootstrap; the paper's objective has no value function).
Success-free group       A^E = 0 follows from zero variance when the reward is the binary outcome; a
                         graded outcome (WebShop's score) still ranks failed rollouts.
Ablations                ``ablation`` removes r^F or r^B from the mixture and keeps the weight of
                         the remaining reward; the paper leaves open whether the weight becomes 1,
                         which for r^B is ``lambda_: 1``.
=======================  ===========================================================================
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from trca.algorithms.credit.arithmetic import (
    discounted_returns,
    joint_codes,
    normalize,
    outcomes,
    segment_numbers,
)
from trca.algorithms.credit.registry import CREDIT_RULES
from trca.algorithms.rules.grpo import trajectory_advantage
from trca.algorithms.settings.parameters import TextParameters
from trca.algorithms.settings.types import Credit, NonNegative, Probability
from trca.records import Floats, Ints, StepBatch
from trca.rubric.rewards import DEFAULT_LAMBDA, trca_reward

Ablation = Literal["none", "without_foundational", "without_breakthrough"]
BudgetSchedule = Literal["constant", "group_success"]
StepGroup = Literal["context", "stage"]


class TRCAParameters(TextParameters):
    """Hyperparameters of TRCA."""

    algorithm = "TRCA"
    credit_settings = frozenset({"gamma", "budgets"})

    credit: Credit = "trca"
    lambda_: Probability = DEFAULT_LAMBDA
    """Weight lambda of the Breakthrough reward against the Foundational one."""
    ablation: Ablation = "none"
    """Leave r^F or r^B out of the rubric reward (the paper's ablations)."""
    outcome_scale: NonNegative = 1.0
    """Weight of the environment's reward in step returns; the rubric has weight 1."""
    budget_schedule: BudgetSchedule = "constant"
    """Budgets stay, or shrink to the share of the group's rollouts that failed."""
    step_group: StepGroup = "context"
    """Steps that A^S compares: steps of the same context (the paper) or of the same stage. A stage
    ends at a step where an Execution operator fires for the first time in the rollout. With stage,
    returns end with the stage."""


@CREDIT_RULES.register("trca")
def trca(
    batch: StepBatch, parameters: TRCAParameters, *, ddof: int = 0, epsilon: float = 1e-6
) -> Floats:
    """The advantage A^TRCA of every step, float64 (S,).

    The advantage weighs the action's tokens of the step: `trca.records.step_batch.action_mask_of`.
    """
    parts = trca_parts(batch, parameters, ddof=ddof, epsilon=epsilon)
    return parts.episode + parts.step


class TRCAParts(NamedTuple):
    """The parts of the advantages of `trca`, float64 (S,) each."""

    returns: Floats
    """R_{i,t}, the completion-aware return."""
    episode: Floats
    """A^E."""
    step: Floats
    """A^S."""


def trca_parts(
    batch: StepBatch, parameters: TRCAParameters, *, ddof: int = 0, epsilon: float = 1e-6
) -> TRCAParts:
    """Return, A^E and A^S of every step; takes the arguments of `trca`."""
    foundational, breakthrough = batch.rubric_rewards(parameters.budgets)
    if parameters.ablation == "without_foundational":
        foundational = np.zeros_like(foundational)
    elif parameters.ablation == "without_breakthrough":
        breakthrough = np.zeros_like(breakthrough)
    rubric = trca_reward(foundational, breakthrough, parameters.lambda_)
    if parameters.budget_schedule == "group_success":
        rubric = rubric * failed_share(batch)
    rewards = parameters.outcome_scale * batch.reward + rubric
    compared, span = batch.context, batch.rollout
    if parameters.step_group == "stage":
        compared = stages(batch)
        span = joint_codes(batch.rollout, compared)
    returns = discounted_returns(rewards, span, parameters.gamma)
    groups = joint_codes(batch.group, compared)
    step = normalize(returns, groups, ddof=ddof, epsilon=epsilon)
    return TRCAParts(returns, trajectory_advantage(batch, ddof=ddof, epsilon=epsilon), step)


def stages(batch: StepBatch) -> Ints:
    """Stage of each step, int64 (S,), from 0 in each rollout."""
    return segment_numbers(batch.milestones(), batch.rollout)


def failed_share(batch: StepBatch) -> Floats:
    """The share of failed rollouts in the group of each step, float64 (S,)."""
    won, starts, lengths = outcomes(batch.won.astype(np.float64), batch.rollout)
    groups = joint_codes(batch.group[starts])
    share = 1.0 - np.bincount(groups, won) / np.maximum(np.bincount(groups), 1)
    return np.repeat(share[groups], lengths)
