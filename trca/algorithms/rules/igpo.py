"""IGPO: credit for information gained about the answer (Wang et al., arXiv 2510.14967).

::

    p_{i,t} = exp(mean_j log pi(y_j | s_{i,t}, y_<j)),   y the right answer
    r_{i,t} = p_{i,t+1} - p_{i,t} for t < T_i,   r_{i,T_i} = F1 of the answer's set of words
    z_{i,t} = (r_{i,t} - mean) / (std + 1e-6) over all steps of the group
    A_{i,t} = sum_{k >= t} gamma^(k-t) z_{i,k}

The rule reads gold: the trained policy scores the right answer of a training task
(``answer_logprobs``). So the rule needs ``gold_in_training: true``, and results show the setting.

Where this differs from the paper or the public code:

=======================  ===========================================================================
History s_t              The prompt of step t. The public code has the full conversation; here a
                         growing context (``response_format`` and ``history_length``) gives the full
                         conversation.
Scored text              A thought that there is enough to answer, then the answer in the format of
                         the run's responses, as in the public code; the answer's tokens count.
Which answer             The first alias, as in the public code.
``gain``                 ``probability`` as in the paper; ``log_probability`` is an option of the
                         public code: the difference of the mean log-probabilities.
``normalization``        ``joint`` as above, the public code's default, or ``separate`` for gains
                         and F1, which scripts of its forks set; the setting of the paper's table is
                         unknown.
F1                       As in the public code: over sets of words in lower case, with articles,
                         punctuation as space (``final_word_set_f1``). The measure ``f1`` is
                         HotpotQA's, over counted words without articles.
A gain of exactly 0      A gain like any other. The public code finds the ends of steps by rewards
                         other than 0, and loses this gain; a later copy of the code
                         (debajoycs98/IGPO) uses 1e-10 instead.
No answer                F1 is 0; the public code gives -2 for missing tags.
Standard deviation       ddof 0, as in the public code.
Zero variance            Exactly 0; the public code divides a rounding error by 1e-4.
Cost                     A forward pass over every prompt.
=======================  ===========================================================================
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from trca.algorithms.credit.arithmetic import (
    discounted_returns,
    joint_codes,
    next_values,
    normalize,
    rollout_spans,
)
from trca.algorithms.credit.registry import CREDIT_RULES
from trca.algorithms.settings.parameters import TextParameters, own_default
from trca.algorithms.settings.types import Credit, Probability
from trca.records import Floats, StepBatch

Gain = Literal["probability", "log_probability"]
Normalization = Literal["separate", "joint"]


class IGPOParameters(TextParameters):
    """Hyperparameters of IGPO."""

    algorithm = "IGPO"

    credit: Credit = "igpo"
    gamma: Probability = own_default("gamma", 1.0)
    gain: Gain = "probability"
    """Quantity that a step raises: the mean token's probability of the right answer, or its
    log-probability."""
    normalization: Normalization = "joint"
    """Normalise gains and final F1 together, or separately."""


@CREDIT_RULES.register("igpo")
def igpo(
    batch: StepBatch,
    parameters: IGPOParameters,
    *,
    answer_logprobs: Floats,
    final_word_set_f1: Floats,
    epsilon: float = 1e-6,
) -> Floats:
    """The discounted sum of normalised gains and final F1 from every step on, float64 (S,)."""
    worth = np.exp(answer_logprobs) if parameters.gain == "probability" else answer_logprobs
    starts, lengths = rollout_spans(batch.rollout)
    last = np.zeros(len(batch), dtype=np.int64)
    last[starts + lengths - 1] = 1
    gains = next_values(worth, batch.rollout, 0.0) - worth
    rewards = np.where(last, final_word_set_f1, gains)
    separate = parameters.normalization == "separate"
    compared = joint_codes(batch.group, last) if separate else batch.group
    normalized = normalize(rewards, joint_codes(compared), ddof=0, epsilon=epsilon)
    return discounted_returns(normalized, batch.rollout, parameters.gamma)
