"""Filtered behaviour cloning: the actions of successful rollouts, by their likelihood.

::

    A_{i,t} = 1 in a rollout that completed its task, else 0
    loss = - mean over the groups with a success of the mean over their successes i
             of mean_t log pi(a_{i,t} | s_{i,t})

The baseline of imitating the policy's successes: failures give no gradient, and all successes count
alike. Every algorithm has the two settings behind the baseline; FilteredBC changes their defaults
to ``policy_loss: log_likelihood`` and ``on_zero_advantage: drop_rollouts``.

Choices of this implementation:

=======================  ===========================================================================
Data                     The rollouts of each iteration, once; public baselines of this name also
                         imitate a growing or a fixed set of rollouts (``replay_size`` keeps some).
Success                  A rollout that completed its task (`won`), whatever its reward.
Mean                     As for all algorithms here (``aggregation``), over the trained rows: tasks
                         count alike at any success rate, and rare success does not shrink the
                         update.
No success               No update in that iteration.
KL and entropy           As for all algorithms here, on the trained rows: set ``kl_coeff`` and
                         ``entropy_coeff`` to 0 for plain imitation.
=======================  ===========================================================================
"""

from __future__ import annotations

import numpy as np

from trca.algorithms.credit.arithmetic import outcomes
from trca.algorithms.credit.registry import CREDIT_RULES
from trca.algorithms.settings.parameters import TextParameters, own_default
from trca.algorithms.settings.types import Credit, OnZeroAdvantage, PolicyLoss
from trca.records import Floats, StepBatch


class FilteredBCParameters(TextParameters):
    """Hyperparameters of filtered behaviour cloning."""

    algorithm = "FilteredBC"
    compares_rollouts = False

    credit: Credit = "filtered_bc"
    policy_loss: PolicyLoss = own_default("policy_loss", "log_likelihood")
    on_zero_advantage: OnZeroAdvantage = own_default("on_zero_advantage", "drop_rollouts")


@CREDIT_RULES.register("filtered_bc")
def filtered_bc(batch: StepBatch) -> Floats:
    """1 for every step of a rollout that completed its task, else 0, float64 (S,)."""
    won, _, lengths = outcomes(batch.won.astype(np.float64), batch.rollout)
    return np.repeat(won, lengths)
