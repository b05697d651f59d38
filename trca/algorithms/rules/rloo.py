"""RLOO: the outcome of a rollout minus the mean of the rest (Ahmadian et al., 2402.14740).

::

    A_{i,t} = R_i - (1 / (n - 1)) sum_{j != i} R_j
            = n / (n - 1) (R_i - mean_j R_j),   R_i = sum_t r_{i,t}, n rollouts in the group

Where this differs from the paper or the public code:

=======================  ===========================================================================
Statistics               Over rollouts, one value each; multi-turn forks of the public code take
                         them over step rows, so that long rollouts weigh more and n is no longer
                         the number of rollouts.
Group of one             0; the public code leaves the raw outcome.
Standard deviation       None, as in the paper: a leave-one-out baseline that is also divided by a
                         deviation spikes on groups that are nearly constant.
KL                       In the loss (`kl_coeff`), as for all rules here; the paper takes it from
                         the reward.
=======================  ===========================================================================
"""

from __future__ import annotations

import numpy as np

from trca.algorithms.credit.arithmetic import joint_codes, normalize, outcomes
from trca.algorithms.credit.registry import CREDIT_RULES
from trca.algorithms.settings.parameters import TextParameters
from trca.algorithms.settings.types import Credit
from trca.records import Floats, StepBatch


class RLOOParameters(TextParameters):
    """Hyperparameters of RLOO."""

    algorithm = "RLOO"

    credit: Credit = "rloo"


@CREDIT_RULES.register("rloo")
def rloo(batch: StepBatch) -> Floats:
    """The outcome minus the mean outcome of the rest of the group, for every step, float64 (S,)."""
    totals, starts, lengths = outcomes(batch.reward, batch.rollout)
    groups = joint_codes(batch.group[starts])
    size = np.bincount(groups)[groups]
    centred = normalize(totals, groups, ddof=0, epsilon=0.0, divide=False)
    return np.repeat(centred * size / np.maximum(size - 1, 1), lengths)
