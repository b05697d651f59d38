"""TurnCredit: GRPO whose credit within a rollout follows the progress of each turn (prime-rl#3282).

::

    A_{i,t} = L_i + beta (c_{i,t} - mean_k c_{i,k})
    L_i = sum_t (r_{i,t} + p_{i,t}) - mean over the rollouts of the group
    c_{i,t} = sum_{k >= t} gamma^(k-t) p_{i,k} / z_k,    z_k = sum_{d < k} gamma^d
    p_{i,t} = phi_{i,t} - phi_{i,t-1},    phi_{i,t} = sum_{k <= t} r^B_{i,k}

phi is a score of the state after a turn, and p is its progress. The progress of a turn is divided
among the turn and the turns before it, with weights gamma^distance that add up to 1.

Where this differs from the public code (the pull request's commit of 16 August 2026):

=======================  ===========================================================================
Score of a state         The share of the rubric that the rollout covered, so p is r^B. The public
                         code reads any score from the environment, also scores that fall.
First turn               p_1 = phi_1, because nothing is covered before it. The public code does not
                         know the score at the start, and takes the first score for it.
Mean of c                Over the steps of the rollout, because the loss is a mean over steps. The
                         public code takes the mean over tokens.
Deviation of the group   Not divided by, as in the public code.
Length penalty, forks    Left out: rollouts here are one chain of turns.
=======================  ===========================================================================
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from trca.algorithms.credit.arithmetic import discounted_returns, rollout_spans
from trca.algorithms.credit.registry import CREDIT_RULES
from trca.algorithms.rules.grpo import trajectory_advantage
from trca.algorithms.settings.parameters import TextParameters, own_default
from trca.algorithms.settings.types import Credit, NonNegative, Probability
from trca.records import StepBatch


class TurnCreditParameters(TextParameters):
    """Hyperparameters of TurnCredit."""

    algorithm = "TurnCredit"
    credit_settings = frozenset({"gamma", "budgets"})

    credit: Credit = "turn_credit"
    gamma: Probability = own_default("gamma", 0.9)
    turn_weight: NonNegative = 1.0
    """Weight beta of the credit within a rollout against the level of the rollout."""


@CREDIT_RULES.register("turn_credit")
def turn_credit(batch: StepBatch, parameters: TurnCreditParameters) -> NDArray[np.float64]:
    """The level of each rollout, shifted by the centred credit of its turns, float64 (S,).

    Args:
        batch: S steps.
        parameters: The settings that the equations name.
    """
    if not len(batch):
        return np.zeros(0)
    progress = batch.rubric_rewards(parameters.budgets).breakthrough
    returns = replace(batch, reward=batch.reward + progress)
    level = trajectory_advantage(returns, ddof=0, epsilon=0.0, divide=False)
    starts, lengths = rollout_spans(batch.rollout)
    turn = np.arange(len(batch)) - np.repeat(starts, lengths)
    shares = np.cumsum(parameters.gamma ** np.arange(lengths.max()))[turn]
    credit = discounted_returns(progress / shares, batch.rollout, parameters.gamma)
    mean = np.repeat(np.add.reduceat(credit, starts) / lengths, lengths)
    return level + parameters.turn_weight * (credit - mean)
