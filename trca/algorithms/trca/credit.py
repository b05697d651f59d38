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
Zero variance            Values within 1e-12 of each other; std > 0 would be fooled by rounding.
Context group of one     A^S = 0, as zero variance.
Budgets                  A parameter; the paper gives no values.
Outcome and rubric       The paper leaves open what an outcome weighs beside the rubric. It is worth
                         c = ``outcome_scale`` in R (A^E is normalised, and does not see it): 10
                         with budgets of 1 is the usual of public code, and the same as 1 with
                         budgets of 0.1.
Late in training         ``budget_schedule: group_success`` takes b = the share of the group's
                         rollouts that failed: the whole rubric without a success, none where all
                         succeed. Known after the rollouts, so r^F and r^B of infos, rollout files
                         and metrics are those of the whole budgets.
Truncated episode        An episode like any other: R(tau) = 0, and its return ends at the last step
                         (no bootstrap; the paper's objective has no value function).
Success-free group       A^E = 0 follows from zero variance when the reward is the binary outcome; a
                         graded outcome (WebShop's score) still ranks failed rollouts.
Ablations                ``ablation`` takes r^F or r^B out of the mixture and leaves the other its
                         weight; the paper does not say whether that weight becomes 1, which for
                         r^B is ``lambda_: 1``.
=======================  ===========================================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from trca.algorithms.credit.arithmetic import discounted_returns, joint_codes, normalize, outcomes
from trca.algorithms.credit.registry import CREDIT_RULES
from trca.algorithms.grpo.credit import trajectory_advantage
from trca.algorithms.settings.parameters import Credit, Probability, TextParameters
from trca.common.names import unknown
from trca.records import StepBatch
from trca.rubric.rewards import DEFAULT_LAMBDA, Budgets, trca_reward

Ablation = Literal["none", "without_foundational", "without_breakthrough"]
BudgetSchedule = Literal["constant", "group_success"]


class TRCAParameters(TextParameters):
    """Hyperparameters of TRCA."""

    algorithm = "TRCA"
    needs_rubric = True

    credit: Credit = "trca"
    lambda_: Probability = Field(
        DEFAULT_LAMBDA,
        description="Weight lambda of the Breakthrough reward against the Foundational one.",
    )
    ablation: Ablation = Field(
        "none", description="Leave r^F or r^B out of the rubric reward (the paper's ablations)."
    )
    outcome_scale: float = Field(
        1.0,
        ge=0.0,
        description="Weight of the environment's reward beside the rubric's in step returns.",
    )
    budget_schedule: BudgetSchedule = Field(
        "constant",
        description="Budgets stay, or shrink to the share of the group's rollouts that failed.",
    )


_DEFAULTS = TRCAParameters()


@CREDIT_RULES.register("trca")
def trca(
    batch: StepBatch,
    *,
    gamma: float = _DEFAULTS.gamma,
    lambda_: float = _DEFAULTS.lambda_,
    budgets: Budgets | Mapping[str, float] | None = None,
    ablation: Ablation = _DEFAULTS.ablation,
    outcome_scale: float = _DEFAULTS.outcome_scale,
    budget_schedule: BudgetSchedule = _DEFAULTS.budget_schedule,
    ddof: int = 0,
    epsilon: float = 1e-6,
) -> NDArray[np.float64]:
    """The advantage A^TRCA of every step.

    Args:
        batch: S steps.
        gamma: Discount of the completion-aware return.
        lambda_: Weight of the Breakthrough Rubric Reward against the Foundational one.
        budgets: Category budgets r^Evi, |r^Inval|, r^Exec, also as a mapping; 1 each for None.
        ablation: Which of r^F and r^B is left out.
        outcome_scale: c, the weight of the environment's reward in step returns.
        budget_schedule: Whether budgets shrink to the share of the group that failed.
        ddof: Degrees of freedom taken off in the standard deviations.
        epsilon: epsilon_norm, added to the standard deviations.

    Returns:
        float64 (S,).

    Raises:
        ValueError: For gamma or lambda outside [0, 1], a budget below 0, or an unknown choice.
    """
    parts = trca_parts(
        batch,
        gamma=gamma,
        lambda_=lambda_,
        budgets=budgets,
        ablation=ablation,
        outcome_scale=outcome_scale,
        budget_schedule=budget_schedule,
        ddof=ddof,
        epsilon=epsilon,
    )
    return parts.episode + parts.step


class TRCAParts(NamedTuple):
    """What the advantages of `trca` consist of, float64 (S,) each."""

    returns: NDArray[np.float64]
    """R_{i,t}, the completion-aware return."""
    episode: NDArray[np.float64]
    """A^E."""
    step: NDArray[np.float64]
    """A^S."""


def trca_parts(
    batch: StepBatch,
    *,
    gamma: float = _DEFAULTS.gamma,
    lambda_: float = _DEFAULTS.lambda_,
    budgets: Budgets | Mapping[str, float] | None = None,
    ablation: Ablation = _DEFAULTS.ablation,
    outcome_scale: float = _DEFAULTS.outcome_scale,
    budget_schedule: BudgetSchedule = _DEFAULTS.budget_schedule,
    ddof: int = 0,
    epsilon: float = 1e-6,
) -> TRCAParts:
    """Return, A^E and A^S of every step; arguments and errors are those of `trca`."""
    if ablation not in get_args(Ablation):
        raise unknown("ablation", ablation, get_args(Ablation))
    if budget_schedule not in get_args(BudgetSchedule):
        raise unknown("budget_schedule", budget_schedule, get_args(BudgetSchedule))
    foundational, breakthrough = batch.rubric_rewards(Budgets.of(budgets))
    if ablation == "without_foundational":
        foundational = np.zeros_like(foundational)
    elif ablation == "without_breakthrough":
        breakthrough = np.zeros_like(breakthrough)
    rubric = trca_reward(foundational, breakthrough, lambda_)
    if budget_schedule == "group_success":
        rubric = rubric * failed_share(batch)
    returns = discounted_returns(outcome_scale * batch.reward + rubric, batch.rollout, gamma)
    contexts = joint_codes(batch.group, batch.context)
    step = normalize(returns, contexts, ddof=ddof, epsilon=epsilon)
    return TRCAParts(returns, trajectory_advantage(batch, ddof=ddof, epsilon=epsilon), step)


def failed_share(batch: StepBatch) -> NDArray[np.float64]:
    """The share of the rollouts of each step's group that did not complete their task.

    Args:
        batch: S steps.

    Returns:
        float64 (S,), from 0 to 1.
    """
    won, starts, lengths = outcomes(batch.won.astype(np.float64), batch.rollout)
    groups = joint_codes(batch.group[starts])
    share = 1.0 - np.bincount(groups, won) / np.maximum(np.bincount(groups), 1)
    return np.repeat(share[groups], lengths)
