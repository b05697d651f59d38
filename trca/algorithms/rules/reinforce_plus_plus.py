"""REINFORCE++: returns normalised over the batch (Hu et al., arXiv 2501.03262).

::

    G_{i,t} = sum_{k >= t} gamma^(k-t) r_{i,k},   gamma = 1
    A_{i,t} = (G_{i,t} - mean G) / (std G + 1e-8)                       over all steps of the batch

and the "-baseline" form (``group_baseline: true``), for several rollouts of a task:

::

    A_{i,t} = (B_i - mean B) / (std B + 1e-8),   B_i = R_i - mean_j R_j of the group

Where this differs from the paper or the public code:

=======================  ===========================================================================
Statistics               Over steps, which are the unit of credit here; the public code takes them
                         over tokens, so that long responses weigh more.
KL                       In the loss, and ``kl_kind: k2`` is this algorithm's default, as in the
                         paper's "-baseline" form; the plain form subtracts k1 from the reward.
Epsilon                  Added to the standard deviation (ddof 1); the public code adds it to the
                         variance.
Group of one             B = 0 in the "-baseline" form; the public code leaves the raw outcome.
Zero variance            Exactly 0.
=======================  ===========================================================================
"""

from __future__ import annotations

import numpy as np

from trca.algorithms.credit.arithmetic import discounted_returns, normalize
from trca.algorithms.credit.registry import CREDIT_RULES
from trca.algorithms.rules.grpo import trajectory_advantage
from trca.algorithms.settings.parameters import TextParameters, own_default
from trca.algorithms.settings.types import Credit, KLKind, Probability
from trca.records import Floats, StepBatch


class ReinforcePlusPlusParameters(TextParameters):
    """Hyperparameters of REINFORCE++."""

    algorithm = "ReinforcePlusPlus"

    credit: Credit = "reinforce_plus_plus"
    gamma: Probability = own_default("gamma", 1.0)
    kl_kind: KLKind = own_default("kl_kind", "k2")
    group_baseline: bool = False
    """Subtract the group's mean outcome first (REINFORCE++-baseline)."""

    def too_small_group(self) -> str:
        """As for every algorithm; without the group's mean any group is large enough."""
        return super().too_small_group() if self.group_baseline else ""


@CREDIT_RULES.register("reinforce_plus_plus")
def reinforce_plus_plus(
    batch: StepBatch, parameters: ReinforcePlusPlusParameters, *, epsilon: float = 1e-8
) -> Floats:
    """The return of every step, normalised over the batch, float64 (S,)."""
    if parameters.group_baseline:
        values = trajectory_advantage(batch, ddof=0, epsilon=0.0, divide=False)
    else:
        values = discounted_returns(batch.reward, batch.rollout, parameters.gamma)
    return normalize(values, np.zeros_like(batch.rollout), ddof=1, epsilon=epsilon)
