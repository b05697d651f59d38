"""GiGPO: group-in-group credit from environment rewards alone (Feng et al., arXiv 2505.10978).

::

    R_{i,t} = sum_{k >= t} gamma^(k-t) r_{i,k}
    A^E(tau_i) = (R(tau_i) - mean) / F     over the rollouts of the group
    A^S(a_{i,t}) = (R_{i,t} - mean) / F    over the steps of the group with the same anchor state
    A_{i,t} = A^E(tau_i) + omega A^S(a_{i,t}),    F = std + 1e-6 (ddof 1) or 1

Where this differs from the public code:

=======================  ===========================================================================
Anchor                   The context key by default, the same groups as TRCA's, so that the two
                         differ in reward alone; ``anchor="observation"`` is the public code's exact
                         text. In ALFWorld that text aliases states ("Nothing happens.").
Baseline of A^E          Over rollouts (the GiGPO paper's definition); the public code takes the
                         statistics over step rows, so that long rollouts weigh more:
                         ``baseline_over="step_row"``.
Invalid action           ``invalid_action_penalty`` for a response without an action, taken from the
                         return of that step alone as in the public code (not of those before it).
                         In A^E it counts only with ``step_row``, where a row is a value.
                         0.01 by default: the public code takes 0.1, and its outcome is 10 where
                         ours is 1.
Groups of one            A^E and A^S are 0; the public code leaves the raw outcome in A^E.
Zero variance            Exactly 0; the public code divides a rounding error by 1e-6.
Similar anchors          Exact match by default, as in the public code; ``anchor="similar"`` is its
                         option: texts at least ``similarity`` alike, each joined to the first text
                         of the group that it is like.
Complexity               Linear, but for similar anchors; the public code's is quadratic in the
                         number of steps.
=======================  ===========================================================================
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from trca.algorithms.credit.anchors import AnchorKind, anchors_before
from trca.algorithms.credit.arithmetic import discounted_returns, joint_codes, normalize, outcomes
from trca.algorithms.credit.registry import CREDIT_RULES
from trca.algorithms.credit.step_settings import Normalizer, StepCreditParameters, divides
from trca.algorithms.grpo.credit import trajectory_advantage
from trca.algorithms.settings.parameters import Credit
from trca.common.names import unknown
from trca.records import StepBatch

Baseline = Literal["trajectory", "step_row"]


class GiGPOParameters(StepCreditParameters):
    """Hyperparameters of GiGPO."""

    algorithm = "GiGPO"

    credit: Credit = "gigpo"
    baseline_over: Baseline = Field(
        "trajectory", description="What the outcome's statistics count (public code: step_row)."
    )


_DEFAULTS = GiGPOParameters()


@CREDIT_RULES.register("gigpo")
def gigpo(
    batch: StepBatch,
    *,
    gamma: float = _DEFAULTS.gamma,
    omega: float = _DEFAULTS.omega,
    normalizer: Normalizer = _DEFAULTS.normalizer,
    baseline_over: Baseline = _DEFAULTS.baseline_over,
    anchor: AnchorKind = _DEFAULTS.anchor,
    similarity: float = _DEFAULTS.similarity,
    invalid_action_penalty: float = _DEFAULTS.invalid_action_penalty,
    epsilon: float = 1e-6,
) -> NDArray[np.float64]:
    """The advantage A^E + omega A^S of every step.

    Args:
        batch: S steps.
        gamma: Discount of the step return.
        omega: Weight of the step advantage.
        normalizer: F, the standard deviation or 1.
        baseline_over: What A^E's statistics count: rollouts, or their step rows.
        anchor: What makes two states the same; see `trca.algorithms.credit.anchors`.
        similarity: How alike two texts are that make the same anchor, for ``similar``.
        invalid_action_penalty: Taken from a step whose response held no action.
        epsilon: Added to the standard deviations.

    Returns:
        float64 (S,).

    Raises:
        ValueError: For a choice that does not exist, or gamma outside [0, 1].
    """
    divide = divides(normalizer)
    if baseline_over not in get_args(Baseline):
        raise unknown("baseline_over", baseline_over, get_args(Baseline))
    penalty = invalid_action_penalty * ~batch.parsed
    returns = discounted_returns(batch.reward, batch.rollout, gamma) - penalty
    anchors = anchors_before(batch, anchor, similarity)
    step = normalize(returns, anchors, ddof=1, epsilon=epsilon, divide=divide)
    if baseline_over == "trajectory":
        episode = trajectory_advantage(batch, ddof=1, epsilon=epsilon, divide=divide)
    else:
        totals, _, lengths = outcomes(batch.reward, batch.rollout)
        scores = np.repeat(totals, lengths) - penalty
        episode = normalize(
            scores, joint_codes(batch.group), ddof=1, epsilon=epsilon, divide=divide
        )
    return episode + omega * step
