"""GiGPO: group-in-group credit from environment rewards (Feng et al., arXiv 2505.10978).

::

    R_{i,t} = sum_{k >= t} gamma^(k-t) r_{i,k}
    A^E(tau_i) = (R(tau_i) - mean) / F     over the rollouts of the group
    A^S(a_{i,t}) = (R_{i,t} - mean) / F    over the steps of the group with the same anchor state
    A_{i,t} = A^E(tau_i) + omega A^S(a_{i,t}),    F = std + 1e-6 (ddof 1) or 1

Where this differs from the public code:

=======================  ===========================================================================
Anchor                   The context key by default, the same groups as TRCA's, so that only the
                         rewards differ; ``anchor: observation`` is the public code's exact text. In
                         ALFWorld that text aliases states ("Nothing happens.").
Baseline of A^E          Over rollouts (the GiGPO paper's definition); the public code takes the
                         statistics over step rows, so that long rollouts weigh more:
                         ``baseline_over: step_row``.
Invalid action           ``invalid_action_penalty`` for a response without an action, subtracted
                         from the return of that step as in the public code (returns of earlier
                         steps stay the same). In A^E the penalty counts only with ``step_row``,
                         with a value per row. 0.01 for an outcome of 1; the public code has 0.1 for
                         an outcome of 10.
Groups of one            A^E and A^S are 0; the public code leaves the raw outcome in A^E.
Zero variance            Exactly 0; the public code divides a rounding error by 1e-6.
Similar anchors          Exact match by default, as in the public code; ``anchor: similar`` is its
                         option: a text joins the first text of the group with a ratio of at least
                         ``similarity``.
Complexity               Linear, except for similar anchors; the public code is quadratic in the
                         number of steps.
=======================  ===========================================================================
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from trca.algorithms.credit.anchors import StepCreditParameters, anchors_before
from trca.algorithms.credit.arithmetic import discounted_returns, joint_codes, normalize, outcomes
from trca.algorithms.credit.registry import CREDIT_RULES
from trca.algorithms.rules.grpo import trajectory_advantage
from trca.algorithms.settings.types import Credit
from trca.records import Floats, StepBatch

Baseline = Literal["trajectory", "step_row"]


class GiGPOParameters(StepCreditParameters):
    """Hyperparameters of GiGPO."""

    algorithm = "GiGPO"

    credit: Credit = "gigpo"
    baseline_over: Baseline = "trajectory"
    """Unit of the outcome's statistics: each rollout once (trajectory), or each step (step_row, as
    the public code)."""


@CREDIT_RULES.register("gigpo")
def gigpo(batch: StepBatch, parameters: GiGPOParameters, *, epsilon: float = 1e-6) -> Floats:
    """The advantage A^E + omega A^S of every step, float64 (S,)."""
    divide = parameters.normalizer == "std"
    penalty = parameters.invalid_action_penalty * ~batch.parsed
    returns = discounted_returns(batch.reward, batch.rollout, parameters.gamma) - penalty
    anchors = anchors_before(batch, parameters.anchor, parameters.similarity)
    step = normalize(returns, anchors, ddof=1, epsilon=epsilon, divide=divide)
    if parameters.baseline_over == "trajectory":
        episode = trajectory_advantage(batch, ddof=1, epsilon=epsilon, divide=divide)
    else:
        totals, _, lengths = outcomes(batch.reward, batch.rollout)
        scores = np.repeat(totals, lengths) - penalty
        episode = normalize(
            scores, joint_codes(batch.group), ddof=1, epsilon=epsilon, divide=divide
        )
    return episode + parameters.omega * step
