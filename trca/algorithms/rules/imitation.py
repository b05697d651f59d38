"""Imitation: every demonstrated response, by its likelihood.

::

    A_{i,t} = 1 for every demonstrated step
    loss = - mean over the steps of mean over the response tokens of log pi(y_k | s_{i,t}, y_{<k})

The loss covers the complete response: a policy learns the format of responses with the actions.

Where a choice was made:

=======================  ===========================================================================
States                   ``demonstrations: demonstrator`` visits the demonstrator's states
                         (behaviour cloning); ``recorded`` those of recorded rollouts; ``on_policy``
                         those of the policy, labelled by the demonstrator (DAgger with the newest
                         data only: Ross et al. 2011 also keep all earlier data).
Thought                  The demonstrator gives no reasons: its thought is the word ``ok``. Recorded
                         responses keep their thoughts.
KL and entropy           Off by default.
=======================  ===========================================================================
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from trca.algorithms.credit.registry import CREDIT_RULES
from trca.algorithms.settings.parameters import TextParameters, own_default
from trca.algorithms.settings.types import Aggregation, Credit, PolicyLoss, Probability, RatioLevel
from trca.records import Floats, StepBatch

Demonstrations = Literal["demonstrator", "recorded", "on_policy"]


class ImitationParameters(TextParameters):
    """Hyperparameters of imitation."""

    algorithm = "Imitation"
    compares_rollouts = False

    credit: Credit = "imitation"
    policy_loss: PolicyLoss = own_default("policy_loss", "log_likelihood")
    ratio_level: RatioLevel = own_default("ratio_level", "action_mean")
    aggregation: Aggregation = own_default("aggregation", "step_mean")
    kl_coeff: float = own_default("kl_coeff", 0.0)
    entropy_coeff: float = own_default("entropy_coeff", 0.0)
    demonstrations: Demonstrations = "demonstrator"
    """Source of the imitated responses: the environment's demonstrator, recorded rollouts, or
    on_policy: the policy acts and the demonstrator labels its states (DAgger)."""
    recorded_rollouts: str | None = None
    """File of rollouts of a run, for demonstrations: recorded. The environment replays their
    responses. Rollouts without success are left out."""
    demonstrator_randomness: Probability = 0.0
    """Probability of a random admissible action in place of the demonstrator's."""
    deliberate_actions: tuple[str, ...] = ()
    """Beginnings of actions that the demonstrator never takes at random."""


@CREDIT_RULES.register("imitation")
def imitation(batch: StepBatch) -> Floats:
    """1 for every step, float64 (S,)."""
    return np.ones(len(batch))
