"""A user's credit rule: a bonus for states that a rollout sees for the first time.

    cd examples/own_rule; trca train --algorithm GRPO \
        --set credit=first_visits.py:first_visits --set credit_config.bonus=0.3
    trca sweep sweep.yaml

A_{i,t} = Norm over the group of R(tau_i)
          + Norm over the group's steps from the same state of R_{i,t}

R_{i,t} = sum_{k >= t} gamma^(k-t) (r_{i,k} + bonus [s_{i,k+1} was not seen before])

A rule is a pure function from the columns of a batch (`trca.records.StepBatch`) to one
advantage per step. A rule gets each setting in its signature, such as ``gamma``. A parameter that
is no setting, such as ``bonus``, has a default and is set in ``credit_config``.
"""

import numpy as np

from trca.algorithms.credit.arithmetic import (
    discounted_returns,
    joint_codes,
    normalize,
    rollout_spans,
)
from trca.algorithms.rules.grpo import trajectory_advantage


def first_visits(batch, *, gamma, bonus=0.1):
    """The advantage of every step, float64 (S,).

    Args:
        batch: S steps.
        gamma: Discount of returns, a setting of every algorithm.
        bonus: Reward for a state that is new in the rollout; a parameter of this rule.

    Raises:
        ValueError: For a negative bonus.
    """
    if bonus < 0:
        raise ValueError(f"bonus is {bonus}: give 0 or more")
    new = np.zeros(len(batch))
    for start, length in zip(*rollout_spans(batch.rollout), strict=True):
        seen = {batch.context[start]}
        for row in range(start, start + length):
            new[row] = batch.next_context[row] not in seen
            seen.add(batch.next_context[row])
    returns = discounted_returns(batch.reward + bonus * new, batch.rollout, gamma)
    step = normalize(returns, joint_codes(batch.group, batch.context), ddof=0, epsilon=1e-6)
    return trajectory_advantage(batch, ddof=0, epsilon=1e-6) + step
