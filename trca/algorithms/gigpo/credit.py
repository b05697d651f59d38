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
Invalid action           ``invalid_action_penalty`` for a response without a command, taken from the
                         return of that step alone as in the public code (not of those before it).
                         In A^E it counts only with ``step_row``, where a row is a value.
Groups of one            A^E and A^S are 0; the public code leaves the raw outcome in A^E.
Zero variance            Exactly 0; the public code divides a rounding error by 1e-6.
Similar anchors          Exact match only (the public code's default).
Complexity               Linear; the public code's is quadratic in the number of steps.
=======================  ===========================================================================
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from trca.algorithms.credit.arithmetic import (
    discounted_returns,
    joint_codes,
    normalize,
    rollout_spans,
)
from trca.algorithms.credit.registry import CREDIT_RULES
from trca.algorithms.grpo.credit import trajectory_advantage
from trca.algorithms.records import StepBatch


@CREDIT_RULES.register("gigpo")
def gigpo(
    batch: StepBatch,
    *,
    gamma: float = 0.95,
    omega: float = 1.0,
    normalizer: Literal["std", "one"] = "std",
    baseline_over: Literal["trajectory", "step_row"] = "trajectory",
    anchor: Literal["context", "observation"] = "context",
    invalid_action_penalty: float = 0.1,
    epsilon: float = 1e-6,
) -> NDArray[np.float64]:
    """The advantage A^E + omega A^S of every step.

    Args:
        batch: S steps.
        gamma: Discount of the step return.
        omega: Weight of the step advantage.
        normalizer: F, the standard deviation or 1.
        baseline_over: What A^E's statistics count: rollouts, or their step rows.
        anchor: What makes two states the same: the context key, or the observation's text.
        invalid_action_penalty: Taken from a step whose response held no command.
        epsilon: Added to the standard deviations.

    Returns:
        float64 (S,).

    Raises:
        ValueError: For a choice that does not exist, or gamma outside [0, 1].
    """
    for name, value, allowed in (
        ("normalizer", normalizer, ("std", "one")),
        ("baseline_over", baseline_over, ("trajectory", "step_row")),
        ("anchor", anchor, ("context", "observation")),
    ):
        if value not in allowed:
            raise ValueError(f"{name} is {value!r}: choose {' or '.join(allowed)}")
    divide = normalizer == "std"
    penalty = invalid_action_penalty * ~batch.parsed
    returns = discounted_returns(batch.reward, batch.rollout, gamma) - penalty
    anchors = joint_codes(batch.group, getattr(batch, anchor))
    step = normalize(returns, anchors, ddof=1, epsilon=epsilon, divide=divide)
    if baseline_over == "trajectory":
        episode = trajectory_advantage(batch, ddof=1, epsilon=epsilon, divide=divide)
    else:
        starts, lengths = rollout_spans(batch.rollout)
        scores = np.repeat(np.add.reduceat(batch.reward, starts), lengths) - penalty
        episode = normalize(
            scores, joint_codes(batch.group), ddof=1, epsilon=epsilon, divide=divide
        )
    return episode + omega * step
