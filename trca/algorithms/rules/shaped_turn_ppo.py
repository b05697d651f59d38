"""ShapedTurnPPO: TurnPPO with potential-based shaping by the rubric, a baseline for TRCA.

::

    Phi(s_t) = sum of r^B over the steps before t, 0 after the end of the task
    r'_t = r_t + gamma Phi(s_{t+1}) - Phi(s_t)

and `turn_ppo` on r' (Ng, Harada and Russell, ICML 1999). Phi is the weight of the Evidence and
Execution operators that have fired so far, so the rule reads judgments of TRCA; it reads no
Invalidity. The discounted sum of the shaping terms of a finished rollout is 0: the optimal policy
stays the same. The advantages equal TurnPPO's advantages with a critic of the values V + Phi
(Wiewiora, JAIR 2003). The rubric therefore acts as a start of the critic.

Where this differs from the papers:

=======================  ===========================================================================
State                    Phi depends on the history of the rollout: on the operators that have
                         fired. The papers' proofs hold for states that contain the history.
End of the task          Phi = 0, as the papers require; a purchase or an answer gives up Phi.
Step limit               Not an end, as in `turn_ppo`: Phi of the state at the limit stays, as the
                         critic's value of that state does.
Critic                   Learns the shaped return: its target at a state is the target without
                         shaping minus Phi.
=======================  ===========================================================================
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from trca.algorithms.credit.arithmetic import rollout_spans
from trca.algorithms.credit.registry import CREDIT_RULES, Credited
from trca.algorithms.credit.values import Values
from trca.algorithms.rules.turn_ppo import TurnPPOParameters, turn_ppo
from trca.algorithms.settings.types import Credit
from trca.records import StepBatch


class ShapedTurnPPOParameters(TurnPPOParameters):
    """Hyperparameters of ShapedTurnPPO."""

    algorithm = "ShapedTurnPPO"
    credit_settings = frozenset({"gamma", "budgets"})

    credit: Credit = "shaped_turn_ppo"


@CREDIT_RULES.register("shaped_turn_ppo")
def shaped_turn_ppo(
    batch: StepBatch, parameters: ShapedTurnPPOParameters, *, values: Values, epsilon: float = 1e-8
) -> Credited:
    """The generalized advantages of shaped rewards, and the critic's targets."""
    covered = batch.rubric_rewards(parameters.budgets).breakthrough
    starts, lengths = rollout_spans(batch.rollout)
    total = np.cumsum(covered)
    after = total - np.repeat(total[starts] - covered[starts], lengths)
    potential = after - covered
    shaping = parameters.gamma * np.where(batch.terminated, 0.0, after) - potential
    shaped = replace(batch, reward=batch.reward + shaping)
    return turn_ppo(shaped, parameters, values=values, epsilon=epsilon)
