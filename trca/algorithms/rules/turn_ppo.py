"""TurnPPO: temporal differences of a critic, turn by turn.

``gae: turn``, one value a turn (VAGEN's turn-wise form, arXiv 2510.16907)::

    delta_t = r_t + gamma V(s_{t+1}) - V(s_t)
    A_t = delta_t + gamma gae_lambda A_{t+1}
    target of V(s_t) = A_t + V(s_t)

``gae: bi_level``, first over turns, then over the tokens of each (RAGEN, arXiv 2504.20073, and
VAGEN). V_{t,j} is the value of the text before token j of turn t, and e its last token::

    delta_t = r_t + gamma V_{t+1,e} - V_{t,e}
    A_t = delta_t + gamma gae_lambda A_{t+1}
    A_{t,e} = A_t
    A_{t,j} = token_gamma V_{t,j+1} - V_{t,j} + token_gamma gae_lambda A_{t,j+1}
    target of V_{t,j} = A_{t,j} + V_{t,j}

Advantages are then normalised over the batch, (A - mean) / (std + 1e-8); targets are not.

Where this differs from the papers or their public code:

=======================  ===========================================================================
Position of V(s_t)       The last prompt token, as in the public code: before the first response
                         token.
Tokens                   Only tokens of the action, as in the loss here; the public codes have all
                         tokens of a response. A turn without action tokens stays in the chain of
                         turns, with V(s_t) as its value, and has a target for the critic.
Turns without a reward   In the chain of turns like turns with a reward; RAGEN's first code found
                         turns by their rewards, and lost turns without a reward.
Step limit               Not an end: V(s_{T+1}) of the state at the step limit replaces the missing
                         returns, also as V_{T+1,e}. The public codes have 0.
Statistics               Over turns, or over tokens for ``bi_level``; ddof 1, and epsilon is added
                         to the standard deviation, not to the variance. Zero variance gives 0.
gae_lambda               1, as in the scripts of RAGEN, VAGEN and Search-R1.
gamma                    0.95 for turns, as for all rules here and as RAGEN's ``high_level_gamma``;
                         ``token_gamma`` is 1. With ``gamma: 1`` and ``gae_lambda: 1`` the two
                         levels are one: the bi-level form is then the token-level one.
Invalid actions          No penalty.
=======================  ===========================================================================
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from trca.algorithms.credit.arithmetic import discounted_returns, next_values, normalize
from trca.algorithms.credit.registry import CREDIT_RULES, Credited
from trca.algorithms.credit.values import CriticSettings, Values, at_states
from trca.algorithms.settings.parameters import TextParameters
from trca.algorithms.settings.types import Credit, Probability
from trca.records import StepBatch

GAE = Literal["turn", "bi_level"]


class TurnPPOParameters(CriticSettings, TextParameters):
    """Hyperparameters of TurnPPO."""

    algorithm = "TurnPPO"
    compares_rollouts = False

    credit: Credit = "turn_ppo"
    gae: GAE = "turn"
    """One advantage per turn, or per token from two levels of temporal differences (bi_level; needs
    ratio_level token)."""
    token_gamma: Probability = 1.0
    """Discount from token to token within a turn, for bi_level."""

    def conflict(self) -> str:
        """As for every algorithm; ``bi_level`` needs ``ratio_level: token``."""
        if self.gae == "bi_level" and self.ratio_level != "token":
            return (
                f"gae is 'bi_level' and ratio_level is {self.ratio_level!r}: each token has an"
                " advantage, so set ratio_level to token"
            )
        return super().conflict()


@CREDIT_RULES.register("turn_ppo")
def turn_ppo(
    batch: StepBatch, parameters: TurnPPOParameters, *, values: Values, epsilon: float = 1e-8
) -> Credited:
    """The generalized advantages of turns, or of their tokens, and the critic's targets.

    For ``bi_level`` the advantage of a step is the mean over its tokens.
    """
    gamma, gae_lambda = parameters.gamma, parameters.gae_lambda
    token_gamma = parameters.token_gamma
    state, after = values.state[:, 0], values.after[:, 0]
    if parameters.gae == "turn":
        differences = batch.reward + gamma * after - state
        advantages = discounted_returns(differences, batch.rollout, gamma * gae_lambda)
        return Credited(
            normalize(advantages, np.zeros_like(batch.rollout), ddof=1, epsilon=epsilon),
            value_targets=at_states(advantages + state, values.lengths),
        )
    tokens = np.flatnonzero(values.action)
    step = np.repeat(np.arange(len(batch)), values.lengths)[tokens]
    value = values.tokens[tokens, 0]
    last = np.append(step[1:] != step[:-1], True) if len(step) else np.zeros(0, bool)
    anchor = state.copy()
    anchor[step[last]] = value[last]
    ends = batch.terminated | batch.truncated
    following = np.where(ends, after, next_values(anchor, batch.rollout, 0.0))
    of_turns = batch.reward + gamma * following - anchor
    of_turns = discounted_returns(of_turns, batch.rollout, gamma * gae_lambda)
    differences = np.where(last, of_turns[step], token_gamma * np.roll(value, -1) - value)
    of_tokens = discounted_returns(differences, step, token_gamma * gae_lambda)
    targets = at_states(of_turns + state, values.lengths)
    speaking = np.zeros(len(batch), dtype=bool)
    speaking[step] = True
    targets[np.repeat(speaking, values.lengths)] = np.nan
    targets[tokens, 0] = of_tokens + value
    normal = normalize(of_tokens, np.zeros_like(step), ddof=1, epsilon=epsilon)
    token_advantages = np.zeros(len(values.action))
    token_advantages[tokens] = normal
    count = np.maximum(np.bincount(step, minlength=len(batch)), 1)
    return Credited(
        np.bincount(step, normal, len(batch)) / count, token_advantages, value_targets=targets
    )
