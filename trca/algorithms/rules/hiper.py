"""HiPER: advantages of a plan on two levels (Peng et al., arXiv 2602.16165).

The response of a turn states a switch, a subgoal and an action. Segments start at the first turn of
a rollout and at each SWITCH; segment k starts at turn b_k, has d_k turns and ends with turn e_k.
The critic has three heads: V^H and V^T of the state of a turn, V^L of the text before the turn's
action, which contains the subgoal. With the penalised rewards

::

    r_t = reward_t - keep_penalty [KEEP] - invalid_action_penalty [no action]
          - change_penalty [KEEP, and the subgoal differs from the subgoal of the turn before]

    G_t = r_t + gamma G_{t+1} inside a segment,   r_t + gamma V^H(s_{t+1}) at its end

    action     delta_t = r_t + gamma (V^L_{t+1} inside a segment, V^H(s_{t+1}) at its end) - V^L_t
               A^L_t = delta_t + gamma gae_lambda A^L_{t+1} inside a segment, delta_t at its end
    subgoal    A^H_k = G_{b_k} - V^H(s_{b_k}) + gamma^{d_k} gae_lambda A^H_{k+1}
    switch     A^T_t = G_t - V^T(s_t)

    targets    A^L_t + V^L_t,   A^H_k + V^H(s_{b_k}) at the start of each segment,   G_t for V^T

A^L credits the tokens of the action, A^T the tokens of the switch, A^H the tokens of the subgoal in
the first turn of the segment; subgoals of later turns have no advantage. Each advantage is
normalised over the batch, (A - mean) / (std + 1e-8) with ddof 0.

Where this differs from the paper or the public code (``hiper_hae/core_hae.py``):

=======================  ===========================================================================
Scale of penalties       A tenth: the outcome is 10 in the public code and 1 here. Both public
                         scripts subtract .3 for a KEEP with a changed subgoal and .1 for an invalid
                         action.
KEEP                     Costs .3 of 10 in the ALFWorld script, in the first turn too. The WebShop
                         script subtracts 3.5 of 10 times the share of KEEPs among the rollout's
                         turns, spread over these turns: ``keep_penalty_mode: normalized`` and
                         ``keep_penalty: 0.35``. A rollout of one turn then pays nothing.
Responses                Must match the format completely (`trca.envs.responses`); the public code
                         uses the first pair of each tag, an unknown switch as SWITCH, and a missing
                         switch as KEEP. In both, an unreadable response is a KEEP without an
                         action, and all its tokens are trained as the action (``train_malformed``).
Changed subgoal          The text differs; the public code compares tokens. The comparison is with
                         the last readable subgoal, which the prompt shows.
Position of V^L          Before the first token of the action part, or before the first response
                         token of a response without an action part. The public code: the first
                         token after the subgoal.
Tokens of two parts      Count for the later part; the public code adds both advantages.
Step limit               The segment ends there, with V^H of the state at the step limit. The public
                         code uses 0 (WebShop script), or the value of the last turn's state
                         (ALFWorld script).
gamma, gae_lambda        0.95 as for all rules here, and 1 for both turns and segments. The public
                         code: 1 and 1, and 0.95 for segments.
Zero variance            Exactly 0.
=======================  ===========================================================================
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import numpy as np
from pydantic import AfterValidator

from trca.algorithms.credit.arithmetic import (
    discounted_returns,
    next_values,
    normalize,
    rollout_spans,
)
from trca.algorithms.credit.plans import Plans, lacks_plan
from trca.algorithms.credit.registry import CREDIT_RULES, Credited
from trca.algorithms.credit.values import CriticSettings, Values
from trca.algorithms.settings.parameters import TextParameters, own_default
from trca.algorithms.settings.types import Credit, NonNegative, RatioLevel
from trca.envs.responses import RESPONSE_FORMATS
from trca.records import Floats, Ints, StepBatch

HIGH, LOW, SWITCH = range(3)
"""Heads of the critic: V^H, V^L and V^T."""
OF_SWITCH, OF_SUBGOAL, OF_ACTION = 1, 2, 3
"""Codes of the parts of a response; see `Plans`."""
KeepPenaltyMode = Literal["fixed", "normalized"]
_EPSILON: Final = 1e-8


class HiPERParameters(CriticSettings, TextParameters):
    """Hyperparameters of HiPER."""

    algorithm = "HiPER"
    compares_rollouts = False
    value_heads = 3

    credit: Credit = "hiper"
    response_format: Annotated[str, AfterValidator(RESPONSE_FORMATS.check)] = own_default(
        "response_format", "plan"
    )
    ratio_level: RatioLevel = own_default("ratio_level", "token")
    train_malformed: bool = own_default("train_malformed", True)
    keep_penalty: NonNegative = 0.03
    """Penalty of a KEEP, for an outcome of 1 (public code: 0.3 of 10 in ALFWorld; 3.5 of 10,
    normalized, in WebShop)."""
    keep_penalty_mode: KeepPenaltyMode = "fixed"
    """Each KEEP costs keep_penalty (fixed), or keep_penalty divided by the number of turns of the
    rollout (normalized)."""
    change_penalty: NonNegative = 0.03
    """Penalty of a KEEP with a changed subgoal (public code: 0.3 of 10)."""
    invalid_action_penalty: NonNegative = 0.01
    """Penalty of a turn with an unreadable response (public code: 0.1 of 10)."""

    def conflict(self) -> str:
        """As for every algorithm; the rule needs plans and ``ratio_level: token``."""
        if lack := lacks_plan(self.response_format):
            return f"HiPER credits switches, subgoals and actions, and {lack}"
        if self.ratio_level != "token":
            return (
                f"HiPER gives each token its advantage and ratio_level is {self.ratio_level!r}:"
                " set ratio_level to token"
            )
        return super().conflict()


@CREDIT_RULES.register("hiper")
def hiper(
    batch: StepBatch, parameters: HiPERParameters, *, values: Values, plans: Plans
) -> Credited:
    """The advantages of switches, subgoals and actions, and the targets of three values.

    The advantage of a step is the mean over its trained tokens.

    Raises:
        ValueError: For a critic without three heads.
    """
    gamma, gae_lambda = parameters.gamma, parameters.gae_lambda
    if values.state.shape[1] != 3:
        raise ValueError(f"hiper reads 3 values of a token, not {values.state.shape[1]}")
    steps = len(batch)
    first = np.zeros(steps, dtype=bool)
    first_turns, lengths = rollout_spans(batch.rollout)
    first[first_turns] = True
    starting = first | plans.switch
    segment = np.cumsum(starting) - 1
    starts, turns = rollout_spans(segment)
    ends = starts + turns - 1

    before = np.where(first, -1, np.roll(plans.subgoal, 1))
    changed = ~starting & (before >= 0) & (plans.subgoal != before)
    share: float | Floats = 1.0
    if parameters.keep_penalty_mode == "normalized":
        share = np.repeat(np.where(lengths > 1, 1.0 / lengths, 0.0), lengths)
    change = parameters.change_penalty * changed
    reward = batch.reward - parameters.keep_penalty * share * ~plans.switch - change
    reward = reward - parameters.invalid_action_penalty * ~batch.parsed

    step = np.repeat(np.arange(steps), values.lengths)
    spoken = values.lengths > 0
    at_state = np.cumsum(values.lengths) - values.lengths
    at_action = at_state.copy()
    tokens = np.flatnonzero(plans.parts == OF_ACTION)
    acting, nearest = np.unique(step[tokens], return_index=True)
    at_action[acting] = tokens[nearest]
    low = values.state[:, LOW].copy()
    low[spoken] = values.tokens[at_action[spoken], LOW]
    high = values.state[starts, HIGH]
    boot = values.after[ends, HIGH]

    paid = reward.copy()
    paid[ends] += gamma * boot
    returns = discounted_returns(paid, segment, gamma)
    differences = reward + gamma * next_values(low, segment, boot) - low
    of_actions = discounted_returns(differences, segment, gamma * gae_lambda)
    weights = gae_lambda * np.power(gamma, turns, dtype=np.float64)
    of_segments = _over_segments(returns[starts] - high, weights, batch.rollout[starts])

    targets = np.full((len(step), 3), np.nan)
    targets[at_state[starts][spoken[starts]], HIGH] = (of_segments + high)[spoken[starts]]
    targets[at_action[spoken], LOW] = (of_actions + low)[spoken]
    targets[at_state[spoken], SWITCH] = returns[spoken]

    of_subgoals = np.zeros(steps)
    of_subgoals[starts] = of_segments
    part = np.where(batch.parsed[step], plans.parts, OF_ACTION)
    part[~values.action | ((part == OF_SUBGOAL) & ~starting[step])] = 0
    advantages = np.zeros(len(step))
    for number, column in (
        (OF_SWITCH, returns - values.state[:, SWITCH]),
        (OF_SUBGOAL, of_subgoals),
        (OF_ACTION, of_actions),
    ):
        tokens = part == number
        taken, turn = np.unique(step[tokens], return_inverse=True)
        codes = np.zeros_like(taken)
        advantages[tokens] = normalize(column[taken], codes, ddof=0, epsilon=_EPSILON)[turn]
    trained = step[values.action]
    count = np.maximum(np.bincount(trained, minlength=steps), 1)
    mean = np.bincount(trained, advantages[values.action], steps) / count
    return Credited(mean, advantages, targets)


def _over_segments(differences: Floats, weights: Floats, rollout: Ints) -> Floats:
    """A_k = delta_k + w_k A_(k+1) over the segments of each rollout, by doubling the horizon."""
    advantages, weights = differences.copy(), weights.copy()
    first, lengths = rollout_spans(rollout)
    weights[first + lengths - 1] = 0.0
    horizon = 1
    while horizon < lengths.max(initial=0):
        advantages[:-horizon] += weights[:-horizon] * advantages[horizon:]
        weights[:-horizon] *= weights[horizon:]
        horizon *= 2
    return advantages
