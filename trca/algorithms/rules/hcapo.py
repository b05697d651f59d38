"""HCAPO: the value of an action in hindsight (Tan et al., arXiv 2603.08754).

::

    pi_hind(a_{i,t}) = exp(h_{i,t} / hindsight_temperature)
    h_{i,t}: mean log-probability of the action's tokens, given s_t and how the rollout ended
    rho_{i,t} = clip(pi_hind(a_{i,t}) / mean over the rollout's steps, 1 - c, 1 + c)
    Q_{i,t} = rho_{i,t} gamma^(T_i - 1 - t) R(tau_i) in a successful rollout, else 0
    A^Q_{i,t} = (Q_{i,t} - mean) / (std + 1e-6)     over all steps of the group
    A_{i,t} = A^E(tau_i) + omega A^Q_{i,t},         in a successful rollout at least A^E(tau_i)

The definition comes from secondary notes on the paper; no public code was found.

Choices of this implementation:

=======================  ===========================================================================
h                        One pass of the learners' current weights over the steps of successful
                         rollouts. A line in the prompt of the step adds that the task was completed
                         in the end, and the last observation (its first 300 characters). The
                         paper's wording is unknown to us.
Tokens of an action      The tokens in the loss; for an action without these, the full response.
Ratio                    To the mean over the rollout, as in the notes: division by the probability
                         without hindsight rewards long responses.
Success                  ``won``: a rollout with a reward and no success has Q = 0.
Standard deviation       ddof 1 and epsilon 1e-6, as in this family's public code.
Group of one step        A^Q is 0, as zero variance.
=======================  ===========================================================================
"""

from __future__ import annotations

import numpy as np

from trca.algorithms.credit.arithmetic import joint_codes, normalize, rollout_spans
from trca.algorithms.credit.registry import CREDIT_RULES
from trca.algorithms.rules.grpo import trajectory_advantage
from trca.algorithms.settings.parameters import TextParameters
from trca.algorithms.settings.types import Credit, NonNegative, PositiveNumber, Probability
from trca.records import Floats, StepBatch


class HCAPOParameters(TextParameters):
    """Hyperparameters of HCAPO."""

    algorithm = "HCAPO"

    credit: Credit = "hcapo"
    omega: NonNegative = 1.0
    """Weight omega of the hindsight advantage."""
    hindsight_temperature: PositiveNumber = 5.0
    """Divides the mean log-probability of an action in hindsight."""
    hindsight_clip: Probability = 0.2
    """Clip c of the hindsight ratio, to 1 - c and 1 + c."""


@CREDIT_RULES.register("hcapo")
def hcapo(
    batch: StepBatch,
    parameters: HCAPOParameters,
    *,
    hindsight_logprobs: Floats,
    epsilon: float = 1e-6,
) -> Floats:
    """The advantage A^E + omega A^Q of every step, float64 (S,).

    ``hindsight_logprobs`` has h of each step of a successful rollout, float64 (S,).
    """
    starts, lengths = rollout_spans(batch.rollout)
    number = np.repeat(np.arange(len(starts)), lengths)
    won = np.bincount(number, batch.won, len(starts))[number] > 0
    outcome = np.bincount(number, batch.reward, len(starts))[number]
    likely = np.exp(np.where(won, hindsight_logprobs, 0.0) / parameters.hindsight_temperature)
    mean = (np.bincount(number, likely, len(starts)) / lengths)[number]
    ratio = np.divide(likely, mean, out=np.ones(len(batch)), where=mean > 0)
    left = np.repeat(starts + lengths - 1, lengths) - np.arange(len(batch))
    ratio = np.clip(ratio, 1.0 - parameters.hindsight_clip, 1.0 + parameters.hindsight_clip)
    quality = ratio * parameters.gamma**left * outcome
    step = normalize(np.where(won, quality, 0.0), joint_codes(batch.group), ddof=1, epsilon=epsilon)
    step = np.where(won, np.maximum(step, 0.0), step)
    return trajectory_advantage(batch, ddof=1, epsilon=epsilon) + parameters.omega * step
