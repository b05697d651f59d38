"""RewardFlow: outcomes that flow back through the group's graph (arXiv 2603.18859).

::

    graph of a group: a transition for every step, from its state to the next one
    V(end of a rollout) = R(tau_i) where R(tau_i) > 0
    V(s) = max(V(s), gamma max V(s') over the transitions out of s), 0 where none leads to a reward
    A^S(a_{i,t}) = (V(s_{i,t+1}) - V(s_{i,t}) - mean) / F   over the group's steps from that state
    A_{i,t} = A^E(tau_i) + omega A^S(a_{i,t}),    F = std + 1e-6 (ddof 1) or 1

Where this differs from the paper or the public code:

=======================  ===========================================================================
Anchor                   The context key by default, as for all rules here; ``observation`` is the
                         public code's exact text.
End of a rollout         A state of its own, worth the outcome, so that the last action is credited
                         like the others. The public code gives the outcome to the state before the
                         last action, and to that action the raw reward.
Self loops               Left in: they never raise a maximum under gamma <= 1.
Actions left out         None; the public code takes transitions out of the graph that an
                         environment's own filter calls invalid.
Decay                    The public code's ``decay``; its PageRank variants are not here.
Sum over later steps     None: as in the public code the step reward itself is compared.
F                        std by default, as for all rules here; the public code's default is 1.
Invalid action           ``invalid_action_penalty``, taken from the step reward of that step alone.
Baseline of A^E          Over rollouts; the public code takes the statistics over step rows.
Groups of one            A^E and A^S are 0; the public code leaves the raw outcome in A^E.
Complexity               Linear for binary outcomes; the public code makes up to 1,000 passes over
                         the graph.
=======================  ===========================================================================
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trca.algorithms.credit.anchors import AnchorKind, anchors_around
from trca.algorithms.credit.arithmetic import normalize, outcomes
from trca.algorithms.credit.graph import spread_back
from trca.algorithms.credit.registry import CREDIT_RULES
from trca.algorithms.credit.step_settings import Normalizer, StepCreditParameters, divides
from trca.algorithms.grpo.credit import trajectory_advantage
from trca.algorithms.settings.parameters import Credit
from trca.common.bounds import check_share
from trca.records import StepBatch


class RewardFlowParameters(StepCreditParameters):
    """Hyperparameters of RewardFlow."""

    algorithm = "RewardFlow"

    credit: Credit = "rewardflow"


_DEFAULTS = RewardFlowParameters()


@CREDIT_RULES.register("rewardflow")
def rewardflow(
    batch: StepBatch,
    *,
    gamma: float = _DEFAULTS.gamma,
    omega: float = _DEFAULTS.omega,
    normalizer: Normalizer = _DEFAULTS.normalizer,
    anchor: AnchorKind = _DEFAULTS.anchor,
    similarity: float = _DEFAULTS.similarity,
    invalid_action_penalty: float = _DEFAULTS.invalid_action_penalty,
    epsilon: float = 1e-6,
) -> NDArray[np.float64]:
    """The advantage A^E + omega A^S of every step.

    Args:
        batch: S steps.
        gamma: Discount for every transition that a value flows back.
        omega: Weight of the step advantage.
        normalizer: F, the standard deviation or 1.
        anchor: What makes two states the same; see `trca.algorithms.credit.anchors`.
        similarity: How alike two texts are that make the same anchor, for ``similar``.
        invalid_action_penalty: Taken from a step whose response held no action.
        epsilon: Added to the standard deviations.

    Returns:
        float64 (S,).

    Raises:
        ValueError: For a choice that does not exist, or gamma outside [0, 1].
    """
    divide = divides(normalizer)
    check_share("gamma", gamma)
    before, after = anchors_around(batch, anchor, similarity)
    states = int(max(before.max(initial=-1), after.max(initial=-1))) + 1
    totals, starts, lengths = outcomes(batch.reward, batch.rollout)
    paid = np.flatnonzero(totals > 0.0)
    after = after.copy()
    after[(starts + lengths - 1)[paid]] = states + np.arange(len(paid))
    worth = np.concatenate([np.full(states, -np.inf), totals[paid]])
    value = np.maximum(spread_back(worth, before, after, lambda ahead: gamma * ahead), 0.0)
    rewards = value[after] - value[before] - invalid_action_penalty * ~batch.parsed
    step = normalize(rewards, before, ddof=1, epsilon=epsilon, divide=divide)
    return trajectory_advantage(batch, ddof=1, epsilon=epsilon, divide=divide) + omega * step
