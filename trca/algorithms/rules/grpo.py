"""GRPO: the outcome of a rollout relative to its group, on every step.

::

    A_{i,t} = (R_i - mean_j R_j) / (std_j R_j + 1e-6),   R_i = sum_t r_{i,t}

Where this differs from the public code:

=======================  ===========================================================================
Statistics               Over rollouts, one value each; multi-turn forks of the public code take
                         them over step rows, so that long rollouts weigh more.
Group of one             0; the public code leaves the raw reward.
Zero variance            Exactly 0; the public code divides a rounding error by 1e-6.
Truncated episode        An episode like any other.
=======================  ===========================================================================
"""

from __future__ import annotations

import numpy as np

from trca.algorithms.credit.arithmetic import joint_codes, normalize, outcomes
from trca.algorithms.credit.registry import CREDIT_RULES
from trca.algorithms.settings.parameters import TextParameters
from trca.algorithms.settings.types import Credit
from trca.records import Floats, StepBatch


class GRPOParameters(TextParameters):
    """Hyperparameters of GRPO."""

    algorithm = "GRPO"

    credit: Credit = "grpo"


@CREDIT_RULES.register("grpo")
def grpo(batch: StepBatch, *, epsilon: float = 1e-6) -> Floats:
    """The group-relative outcome of the rollout, for every step, float64 (S,)."""
    return trajectory_advantage(batch, ddof=1, epsilon=epsilon)


def trajectory_advantage(
    batch: StepBatch, *, ddof: int, epsilon: float, divide: bool = True
) -> Floats:
    """A^E: outcomes normalised over the rollouts of each group, spread over steps, float64 (S,).

    `normalize` has the arguments.
    """
    totals, starts, lengths = outcomes(batch.reward, batch.rollout)
    groups = joint_codes(batch.group[starts])
    advantages = normalize(totals, groups, ddof=ddof, epsilon=epsilon, divide=divide)
    return np.repeat(advantages, lengths)
