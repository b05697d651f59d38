"""GraphGPO: credit by the distance to success in the group's graph (arXiv 2605.26684).

::

    graph of a group: a transition for every step, from its state to the next one; the end of a
                      rollout that completed the task is the state 'success'
    d(s) = least number of transitions from s to success;  d_max + 1 without a path
    R_{i,t} = 10 distance_gamma^d(s_{i,t+1})
    A^G(a_{i,t}) = (R_{i,t} - mean) / F     over the steps of the group from the same anchor
    A_{i,t} = A^E(tau_i) + omega A^G(a_{i,t}),    F = std + 1e-6 (ddof 1) or 1

d_max is the largest distance in the group; without a success all distances are equal.

Where this differs from the paper or the public code:

=======================  ===========================================================================
Anchor                   The context key by default, as for all rules here; ``observation`` is the
                         public code's exact text. ``similar`` is its option: similar texts are one
                         state of the graph, while A^G compares steps of exactly equal texts. Least
                         ratio .9 (``similarity``); the public code has .95.
distance_gamma           0.1, the paper's for ALFWorld (0.2 for WebShop). Not ``gamma``, because the
                         factor discounts distances and not rewards.
Success                  A rollout that completed its task (`won`), whatever its reward; the public
                         code adds the state the same way.
Invalid action           ``invalid_action_penalty``, subtracted from that step's R / 10.
Baseline of A^E          Over rollouts; the public code takes the statistics over step rows. In 8
                         tasks of ALFWorld played by 8 rollouts that is another A^E in 325 of 1,011
                         steps, by up to .53.
Groups of one            A^E and A^G are 0; the public code leaves the raw outcome in A^E.
Zero variance            Exactly 0; the public code divides a rounding error by 1e-6.
Complexity               Linear: breadth-first, all groups at once; the public code runs Dijkstra's
                         algorithm in Python and keeps every path.
=======================  ===========================================================================
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from trca.algorithms.credit.anchors import (
    StepCreditParameters,
    anchors_around,
    anchors_before,
    spread_back,
)
from trca.algorithms.credit.arithmetic import joint_codes, normalize
from trca.algorithms.credit.registry import CREDIT_RULES
from trca.algorithms.rules.grpo import trajectory_advantage
from trca.algorithms.settings.types import Credit, Probability
from trca.records import Floats, StepBatch

_SCALE = 10.0


class GraphGPOParameters(StepCreditParameters):
    """Hyperparameters of GraphGPO."""

    algorithm = "GraphGPO"
    credit_settings = frozenset()

    credit: Credit = "graphgpo"
    distance_gamma: Probability = 0.1
    """Discount for every transition between a state and success."""


@CREDIT_RULES.register("graphgpo")
def graphgpo(batch: StepBatch, parameters: GraphGPOParameters, *, epsilon: float = 1e-6) -> Floats:
    """The advantage A^E + omega A^G of every step, float64 (S,)."""
    divide, anchor = parameters.normalizer == "std", parameters.anchor
    # The last observation of a success is not a state of the graph: 'success' takes its place.
    graph = replace(
        batch, next_observation=np.where(batch.won, batch.observation, batch.next_observation)
    )
    before, after = anchors_around(graph, anchor, parameters.similarity)
    compared = anchors_before(batch, "observation", 1.0) if anchor == "similar" else before
    success = int(max(before.max(initial=-1), after.max(initial=-1))) + 1
    nearness = np.full(success + 1, -np.inf)
    nearness[success] = 0.0
    after = np.where(batch.won, success, after)
    distance = -spread_back(nearness, before, after, lambda value: value - 1.0)
    groups = joint_codes(batch.group)
    farthest = np.zeros(groups.max(initial=-1) + 1)
    np.maximum.at(farthest, groups, np.where(np.isinf(distance), 0.0, distance)[before])
    ahead = np.minimum(distance[after], farthest[groups] + 1.0)
    penalty = parameters.invalid_action_penalty * ~batch.parsed
    returns = _SCALE * (parameters.distance_gamma**ahead - penalty)
    step = normalize(returns, compared, ddof=1, epsilon=epsilon, divide=divide)
    episode = trajectory_advantage(batch, ddof=1, epsilon=epsilon, divide=divide)
    return episode + parameters.omega * step
