"""HGPO: credit against steps with ever more history in common (He et al., arXiv 2602.22817).

::

    G_k(i, t): steps of the group whose last k anchors, the current one included, are the same
    R_{i,t} = sum_{j >= t} gamma^(j-t) r_{i,j}
    A_k(i, t) = (R_{i,t} - mean) / (std + 1e-6) over G_k
    A_{i,t} = sum_k w_k A_k / sum_k w_k,   w_k = (k + 1)^alpha,   k = 1 .. past_anchors + 1

over those k for which G_k has another member and the rollout is that long already.

Where this differs from the paper or the public code:

=======================  ===========================================================================
Anchor                   The context key by default, as for all rules here; ``observation`` is the
                         public code's exact text.
Depth                    ``past_anchors``, 2 as in the paper's main table; the public code takes
                         the number of past steps in the prompt.
Weights                  The public code's, where k counts anchors from 1, so that its first weight
                         is 2^alpha.
Left out                 Levels without another member. The public code also leaves out the levels
                         in which the step's advantage is 0, mostly those without variance: an
                         option, ``drop_zero_levels``. In 8 tasks of ALFWorld played by 8 rollouts
                         it changes 50 of 1,011 advantages by up to 1.00 (62 rollouts succeed), or
                         26 of 1,900 by up to .45 (3 succeed).
A^E                      None, as in the public code's default (``base_group`` off).
Invalid action           ``invalid_action_penalty``, taken from the return of that step alone.
Standard deviation       ddof 0, as in the public code.
Zero variance            Exactly 0; the public code divides a rounding error by 1e-6.
Complexity               Linear, times the number of levels.
=======================  ===========================================================================
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from trca.algorithms.credit.anchors import AnchorKind, anchors_before
from trca.algorithms.credit.arithmetic import (
    discounted_returns,
    joint_codes,
    normalize,
    rollout_spans,
)
from trca.algorithms.credit.registry import CREDIT_RULES
from trca.algorithms.credit.step_settings import PenaltyParameters
from trca.algorithms.settings.parameters import Credit
from trca.records import StepBatch


class HGPOParameters(PenaltyParameters):
    """Hyperparameters of HGPO."""

    algorithm = "HGPO"

    credit: Credit = "hgpo"
    past_anchors: int = Field(
        2, ge=0, description="Most states before the current one that are compared."
    )
    alpha: float = Field(
        1.0, ge=0.0, description="Power alpha of a level's weight: 0 weighs all levels alike."
    )
    drop_zero_levels: bool = Field(
        False,
        description="Leave out the levels in which a step's advantage is 0, as the public code "
        "does.",
    )


_DEFAULTS = HGPOParameters()
_ZERO: Final = 1e-9
"""Advantages below are 0 on paper: rounding leaves 1e-10, and the least other one is 1e-6."""


@CREDIT_RULES.register("hgpo")
def hgpo(
    batch: StepBatch,
    *,
    gamma: float = _DEFAULTS.gamma,
    past_anchors: int = _DEFAULTS.past_anchors,
    alpha: float = _DEFAULTS.alpha,
    drop_zero_levels: bool = _DEFAULTS.drop_zero_levels,
    anchor: AnchorKind = _DEFAULTS.anchor,
    similarity: float = _DEFAULTS.similarity,
    invalid_action_penalty: float = _DEFAULTS.invalid_action_penalty,
    epsilon: float = 1e-6,
) -> NDArray[np.float64]:
    """The weighted mean of every step's advantages over the levels of history.

    Args:
        batch: S steps.
        gamma: Discount of the step return.
        past_anchors: Most anchors before the current one that are compared.
        alpha: Power of a level's weight.
        drop_zero_levels: Whether a level is left out for a step whose advantage in it is 0.
        anchor: What makes two states the same; see `trca.algorithms.credit.anchors`.
        similarity: How alike two texts are that make the same anchor, for ``similar``.
        invalid_action_penalty: Taken from a step whose response held no action.
        epsilon: Added to the standard deviations (ddof 0).

    Returns:
        float64 (S,); 0 for a step from a state that no other step of the group was taken in.

    Raises:
        ValueError: For an unknown anchor, or gamma outside [0, 1].
    """
    returns = discounted_returns(batch.reward, batch.rollout, gamma)
    returns -= invalid_action_penalty * ~batch.parsed
    states = anchors_before(batch, anchor, similarity)
    starts, lengths = rollout_spans(batch.rollout)
    position = np.arange(len(batch)) - np.repeat(starts, lengths)
    histories = states.copy()
    total, weights = np.zeros(len(batch)), np.zeros(len(batch))
    for level in range(1, past_anchors + 2):
        rows = np.flatnonzero(position >= level - 1)
        if level > 1:
            histories[rows] = joint_codes(histories[rows], states[rows - level + 1])
        codes = histories[rows]
        counted = np.bincount(codes)[codes] > 1
        advantages = normalize(returns[rows], codes, ddof=0, epsilon=epsilon)
        if drop_zero_levels:
            counted &= np.abs(advantages) > _ZERO
        weight = counted * float(level + 1) ** alpha
        total[rows] += weight * advantages
        weights[rows] += weight
    return np.divide(total, weights, out=np.zeros(len(batch)), where=weights > 0)
