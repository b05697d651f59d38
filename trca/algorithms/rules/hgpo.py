"""HGPO: credit relative to steps with common history (He et al., arXiv 2602.22817).

::

    G_k(i, t): steps of the group with the same last k anchors, the current anchor included
    R_{i,t} = sum_{j >= t} gamma^(j-t) r_{i,j}
    A_k(i, t) = (R_{i,t} - mean) / (std + 1e-6) over G_k
    A_{i,t} = sum_k w_k A_k / sum_k w_k,   w_k = (k + 1)^alpha,   k = 1 .. past_anchors + 1

over all k for which G_k has another member and the rollout has k steps.

Where this differs from the paper or the public code:

=======================  ===========================================================================
Anchor                   The context key by default, as for all rules here; ``observation`` is the
                         public code's exact text.
Depth                    ``past_anchors``, 2 as in the paper's main table; the public code has the
                         number of past steps in the prompt.
Weights                  The public code's, where k counts anchors from 1, so that its first weight
                         is 2^alpha.
Left out                 Levels without another member. The public code also leaves out the levels
                         in which the step's advantage is 0, mostly for lack of variance: an
                         option, ``drop_zero_levels``. In 8 tasks of ALFWorld played by 8 rollouts
                         it changes 50 of 1,011 advantages by up to 1.00 (62 rollouts succeed), or
                         26 of 1,900 by up to .45 (3 succeed).
A^E                      None, as in the public code's default (``base_group`` off).
Invalid action           ``invalid_action_penalty``, subtracted from the return of that step.
Standard deviation       ddof 0, as in the public code.
Zero variance            Exactly 0; the public code divides a rounding error by 1e-6.
Complexity               Linear, times the number of levels.
=======================  ===========================================================================
"""

from __future__ import annotations

from typing import Final

import numpy as np

from trca.algorithms.credit.anchors import PenaltyParameters, anchors_before
from trca.algorithms.credit.arithmetic import (
    discounted_returns,
    joint_codes,
    normalize,
    rollout_spans,
)
from trca.algorithms.credit.registry import CREDIT_RULES
from trca.algorithms.settings.types import Count, Credit, NonNegative
from trca.records import Floats, StepBatch


class HGPOParameters(PenaltyParameters):
    """Hyperparameters of HGPO."""

    algorithm = "HGPO"

    credit: Credit = "hgpo"
    past_anchors: Count = 2
    """Maximum number of earlier states in a comparison."""
    alpha: NonNegative = 1.0
    """Power alpha of a level's weight: 0 gives all levels equal weight."""
    drop_zero_levels: bool = False
    """Leave out the levels in which a step's advantage is 0, as the public code does."""


_ZERO: Final = 1e-9
"""Smaller advantages are 0 on paper: rounding leaves 1e-10, other advantages are above 1e-6."""


@CREDIT_RULES.register("hgpo")
def hgpo(batch: StepBatch, parameters: HGPOParameters, *, epsilon: float = 1e-6) -> Floats:
    """The weighted mean of every step's advantages over the levels of history, float64 (S,)."""
    returns = discounted_returns(batch.reward, batch.rollout, parameters.gamma)
    returns -= parameters.invalid_action_penalty * ~batch.parsed
    states = anchors_before(batch, parameters.anchor, parameters.similarity)
    starts, lengths = rollout_spans(batch.rollout)
    position = np.arange(len(batch)) - np.repeat(starts, lengths)
    histories = states.copy()
    total, weights = np.zeros(len(batch)), np.zeros(len(batch))
    for level in range(1, parameters.past_anchors + 2):
        rows = np.flatnonzero(position >= level - 1)
        if level > 1:
            histories[rows] = joint_codes(histories[rows], states[rows - level + 1])
        codes = histories[rows]
        counted = np.bincount(codes)[codes] > 1
        advantages = normalize(returns[rows], codes, ddof=0, epsilon=epsilon)
        if parameters.drop_zero_levels:
            counted &= np.abs(advantages) > _ZERO
        weight = counted * float(level + 1) ** parameters.alpha
        total[rows] += weight * advantages
        weights[rows] += weight
    return np.divide(total, weights, out=np.zeros(len(batch)), where=weights > 0)
