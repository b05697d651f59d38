"""RewardFlow: outcomes that flow back through the group's graph (arXiv 2603.18859).

::

    graph of a group: a transition for every step, from its state to the next one
    V(end of a rollout) = R(tau_i) where R(tau_i) > 0
    V(s) = max(V(s), gamma max V(s') over the transitions out of s), 0 without a path to a reward
    A^S(a_{i,t}) = (V(s_{i,t+1}) - V(s_{i,t}) - mean) / F   over the group's steps from that state
    A_{i,t} = A^E(tau_i) + omega A^S(a_{i,t}),    F = std + 1e-6 (ddof 1) or 1

Where this differs from the paper or the public code:

=======================  ===========================================================================
Anchor                   The context key by default, as for all rules here; ``observation`` is the
                         public code's exact text.
End of a rollout         A separate state with the outcome as value, so that the last action has
                         credit like earlier actions. The public code gives the outcome to the state
                         before the last action, and the raw reward to the last action.
Self loops               Left in: they never raise a maximum under gamma <= 1.
Actions left out         None; the public code takes transitions out of the graph that an
                         environment's own filter calls invalid.
Decay                    The public code's ``decay``; its PageRank variants are not here.
Sum over later steps     None: as in the public code the step reward itself is compared.
F                        std by default, as for all rules here; the public code's default is 1.
Invalid action           ``invalid_action_penalty``, subtracted from the reward of that step.
Baseline of A^E          Over rollouts; the public code takes the statistics over step rows.
Groups of one            A^E and A^S are 0; the public code leaves the raw outcome in A^E.
Complexity               Linear for binary outcomes; the public code makes up to 1,000 passes over
                         the graph.
=======================  ===========================================================================
"""

from __future__ import annotations

import numpy as np

from trca.algorithms.credit.anchors import StepCreditParameters, anchors_around, spread_back
from trca.algorithms.credit.arithmetic import normalize, outcomes
from trca.algorithms.credit.registry import CREDIT_RULES
from trca.algorithms.rules.grpo import trajectory_advantage
from trca.algorithms.settings.types import Credit
from trca.records import Floats, StepBatch


class RewardFlowParameters(StepCreditParameters):
    """Hyperparameters of RewardFlow."""

    algorithm = "RewardFlow"

    credit: Credit = "rewardflow"


@CREDIT_RULES.register("rewardflow")
def rewardflow(
    batch: StepBatch, parameters: RewardFlowParameters, *, epsilon: float = 1e-6
) -> Floats:
    """The advantage A^E + omega A^S of every step, float64 (S,)."""
    divide, gamma = parameters.normalizer == "std", parameters.gamma
    before, after = anchors_around(batch, parameters.anchor, parameters.similarity)
    states = int(max(before.max(initial=-1), after.max(initial=-1))) + 1
    totals, starts, lengths = outcomes(batch.reward, batch.rollout)
    paid = np.flatnonzero(totals > 0.0)
    after = after.copy()
    after[(starts + lengths - 1)[paid]] = states + np.arange(len(paid))
    worth = np.concatenate([np.full(states, -np.inf), totals[paid]])
    value = np.maximum(spread_back(worth, before, after, lambda ahead: gamma * ahead), 0.0)
    rewards = value[after] - value[before] - parameters.invalid_action_penalty * ~batch.parsed
    step = normalize(rewards, before, ddof=1, epsilon=epsilon, divide=divide)
    episode = trajectory_advantage(batch, ddof=1, epsilon=epsilon, divide=divide)
    return episode + parameters.omega * step
