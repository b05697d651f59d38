"""Rules as their public code defines them, where it differs from the paper or from this package.

Written from the definitions; float64 in place of float32, which leaves rounding errors aside.
"""

from collections import defaultdict
from difflib import SequenceMatcher

import numpy as np

from tests.algorithms.credit.slow_rules import slow_returns


def public_norm(values, keys, ddof, epsilon=1e-6, single=0.0):
    """(z - mean) / (std + epsilon) of each value in its group; ``single`` in a group of one."""
    groups = defaultdict(list)
    for value, key in zip(values, keys, strict=True):
        groups[key].append(value)
    result = []
    for value, key in zip(values, keys, strict=True):
        members = np.array(groups[key])
        if len(members) == 1:
            result.append(value if single == "value" else single)
        else:
            centred = value - members.mean() if np.ptp(members) > 1e-12 else 0.0
            result.append(centred / (members.std(ddof=ddof) + epsilon))
    return np.array(result)


def public_episode(batch):
    """A^E of verl-agent: statistics over the rows of steps, so that a long rollout counts often."""
    outcomes = [batch.reward[batch.rollout == name].sum() for name in batch.rollout]
    return public_norm(outcomes, batch.group.tolist(), ddof=1, single="value")


def public_graph_credit(batch, gamma, threshold=None):
    """A^G of GraphGPO's recipe: alike texts are one state; steps of equal texts are compared.

    Args:
        batch: S steps with texts.
        gamma: Discount for every transition to success.
        threshold: Least ratio of two texts that are one state; None for exact texts.
    """
    returns = np.zeros(len(batch))
    for group in np.unique(batch.group):
        canonical, founders = {}, []

        def state(text, canonical=canonical, founders=founders):
            if threshold is None:
                return text
            if text not in canonical:
                alike = (f for f in founders if SequenceMatcher(None, text, f).ratio() >= threshold)
                canonical[text] = next(alike, text)
                if canonical[text] == text:
                    founders.append(text)
            return canonical[text]

        edges = []
        for row in np.flatnonzero(batch.group == group):
            one = state(batch.texts[batch.observation[row]])
            won = batch.won[row]
            edges.append(
                (row, one, "success" if won else state(batch.texts[batch.next_observation[row]]))
            )
        distance = {"success": 0}
        for _ in edges:
            for _, one, other in edges:
                if other in distance:
                    step = distance[other] + 1
                    distance[one] = min(step, distance.get(one, step))
        farthest = max(distance.values())
        for row, _, other in edges:
            returns[row] = 10 * gamma ** distance.get(other, farthest + 1)
    states = zip(batch.group.tolist(), batch.observation.tolist(), strict=True)
    return public_norm(returns, list(states), ddof=1)


def public_hgpo(batch, gamma, past_anchors, alpha):
    """HGPO's recipe: of the levels of a step, those whose advantage is exactly 0 are left out."""
    returns = slow_returns(batch.reward, batch.rollout, gamma)
    levels = defaultdict(list)
    for level in range(1, past_anchors + 2):
        members = defaultdict(list)
        for row in range(len(batch)):
            history = range(row - level + 1, row + 1)
            if history[0] >= 0 and batch.rollout[history[0]] == batch.rollout[row]:
                names = tuple(batch.observation[k] for k in history)
                members[batch.group[row], names].append(row)
        for rows in members.values():
            if len(rows) > 1:
                for row, advantage in zip(
                    rows, public_norm(returns[rows], [0] * len(rows), ddof=0), strict=True
                ):
                    if abs(advantage) > 1e-9:
                        levels[row].append(((level + 1) ** alpha, advantage))
    result = np.zeros(len(batch))
    for row, items in levels.items():
        result[row] = sum(w * a for w, a in items) / sum(w for w, _ in items)
    return result
