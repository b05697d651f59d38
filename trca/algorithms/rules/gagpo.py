"""GAGPO: generalized advantages over values of groups of states (Zhu et al., arXiv 2605.13217).

::

    R_{i,t} = sum_{k >= t} gamma^(k-t) r_{i,k}
    V(s) = mean over the group's visits of s of R_{i,t}
    delta_{i,t} = r_{i,t} + gamma V(s_{i,t+1}) - V(s_{i,t}),   V(end of a rollout) = 0
    G_{i,t} = delta_{i,t} + gamma gae_lambda G_{i,t+1}
    A_{i,t} = (G_{i,t} - mean) / (std + 1e-6)   over all steps of the group

There is no A^E: the outcome on every step of a rollout would blur the differences of the steps.

The paper's equations were not at hand and no public code was found. Public summaries of the paper
name the parts: the mean return of equal states as value, temporal differences and their recursion,
no outcome term, normalisation by group.

Choices of this implementation:

=======================  ===========================================================================
Group of the norm        The rollouts of one task: according to the summaries, the norm removes the
                         scale of tasks.
gae_lambda               0.95, the usual value; the paper's value is unknown to us.
Standard deviation       ddof 1 and epsilon 1e-6, as in this family's public code.
Anchor                   The context key by default, as for all rules here; ``observation`` is the
                         paper's exact text.
Truncated episode        An episode like any other: the value of the end is 0.
Group of one step        0, as zero variance.
=======================  ===========================================================================
"""

from __future__ import annotations

from trca.algorithms.credit.anchors import AnchorParameters, anchors_before
from trca.algorithms.credit.arithmetic import (
    discounted_returns,
    joint_codes,
    next_values,
    normalize,
)
from trca.algorithms.credit.registry import CREDIT_RULES
from trca.algorithms.rules.g2po import state_values
from trca.algorithms.settings.types import Credit, Probability
from trca.records import Floats, StepBatch


class GAGPOParameters(AnchorParameters):
    """Hyperparameters of GAGPO."""

    algorithm = "GAGPO"

    credit: Credit = "gagpo"
    gae_lambda: Probability = 0.95
    """How far temporal differences are summed: 0 is one step, 1 all of them."""


@CREDIT_RULES.register("gagpo")
def gagpo(batch: StepBatch, parameters: GAGPOParameters, *, epsilon: float = 1e-6) -> Floats:
    """The generalized advantage of every step, normalised over its group, float64 (S,)."""
    gamma, gae_lambda = parameters.gamma, parameters.gae_lambda
    states = anchors_before(batch, parameters.anchor, parameters.similarity)
    value = state_values(states, discounted_returns(batch.reward, batch.rollout, gamma))
    differences = batch.reward + gamma * next_values(value, batch.rollout, 0.0) - value
    advantages = discounted_returns(differences, batch.rollout, gamma * gae_lambda)
    return normalize(advantages, joint_codes(batch.group), ddof=1, epsilon=epsilon)
