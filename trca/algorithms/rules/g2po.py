"""G2PO: group-graph policy optimization (Wang et al., arXiv 2606.22995).

::

    R_{i,t} = sum_{k >= t} gamma^(k-t) r_{i,k}
    V(s) = mean over the group's visits of s of gamma R_{i,t}
    V(end of a rollout) = R(tau_i)
    A^N(a_{i,t}) = Norm over the group's steps from the same state of V(s_{i,t+1})
    A^T(a_{i,t}) = Norm over all steps of the group of V(s_{i,t+1}) - V(s_{i,t})
    A_{i,t} = A^E(tau_i) + omega (A^N + A^T)
    Norm(z) = (z - mean) / F,   F = std + 1e-6 (ddof 1) or 1

V is the mean later return of a state over all rollouts of the group; A^T ranks the transitions of
the group's graph by their gain in V.

The paper's abstract names these parts; the equations are its public code's.

Where this differs from the public code:

=======================  ===========================================================================
Anchor                   The context key by default, as for all rules here; ``observation`` is the
                         public code's exact text.
Graded outcome           The value of a rollout's end is the outcome; the public code has 10 for a
                         success and 0 for any other end.
Invalid action           ``invalid_action_penalty``, subtracted from V(s_{t+1}), only in A^N; 0.01
                         for an outcome of 1, the public code has 0.1 for an outcome of 10.
F                        std by default, as for all rules here; the public code's default is 1.
Baseline of A^E          Over rollouts; the public code takes the statistics over step rows.
Groups of one            A^E, A^N and A^T are 0; the public code leaves the raw outcome in A^E.
Zero variance            Exactly 0; the public code divides a rounding error by 1e-6.
Complexity               Linear.
=======================  ===========================================================================
"""

from __future__ import annotations

import numpy as np

from trca.algorithms.credit.anchors import StepCreditParameters, anchors_before
from trca.algorithms.credit.arithmetic import (
    discounted_returns,
    joint_codes,
    next_values,
    normalize,
    outcomes,
)
from trca.algorithms.credit.registry import CREDIT_RULES
from trca.algorithms.rules.grpo import trajectory_advantage
from trca.algorithms.settings.types import Credit
from trca.records import Floats, Ints, StepBatch


class G2POParameters(StepCreditParameters):
    """Hyperparameters of G2PO."""

    algorithm = "G2PO"

    credit: Credit = "g2po"


@CREDIT_RULES.register("g2po")
def g2po(batch: StepBatch, parameters: G2POParameters, *, epsilon: float = 1e-6) -> Floats:
    """The advantage A^E + omega (A^N + A^T) of every step, float64 (S,)."""
    divide, gamma = parameters.normalizer == "std", parameters.gamma
    states = anchors_before(batch, parameters.anchor, parameters.similarity)
    returns = gamma * discounted_returns(batch.reward, batch.rollout, gamma)
    value = state_values(states, returns)
    totals, _, _ = outcomes(batch.reward, batch.rollout)
    following = next_values(value, batch.rollout, totals)
    groups = joint_codes(batch.group)
    penalised = following - parameters.invalid_action_penalty * ~batch.parsed
    local = normalize(penalised, states, ddof=1, epsilon=epsilon, divide=divide)
    gain = normalize(following - value, groups, ddof=1, epsilon=epsilon, divide=divide)
    episode = trajectory_advantage(batch, ddof=1, epsilon=epsilon, divide=divide)
    return episode + parameters.omega * (local + gain)


def state_values(states: Ints, returns: Floats) -> Floats:
    """The mean return of each step's state over all visits, float64 (S,)."""
    return (np.bincount(states, returns) / np.bincount(states))[states]
