"""Dr. GRPO: GRPO without its biases of difficulty and of length (Liu et al., arXiv 2503.20783).

::

    A_{i,t} = R_i - mean_j R_j,   R_i = sum_t r_{i,t}
    loss    = (1 / N) sum_i (1 / C) sum_t loss_{i,t}       C a constant, not the length T_i

No division by the standard deviation, which gives the easiest and hardest tasks the most weight; no
division by a rollout's length, which gives long failures less weight.

Where this differs from the paper:

=======================  ===========================================================================
Loss                     ``aggregation: rollout_sum`` is this algorithm's default, with steps in
                         place of tokens: an action has one importance ratio. C is
                         ``constant_steps``; the paper takes the limit on new tokens.
KL                       `kl_coeff` as for all rules here; the paper trains without KL.
Truncated episode        An episode like any other.
=======================  ===========================================================================
"""

from __future__ import annotations

from trca.algorithms.credit.registry import CREDIT_RULES
from trca.algorithms.rules.grpo import trajectory_advantage
from trca.algorithms.settings.parameters import TextParameters, own_default
from trca.algorithms.settings.types import Aggregation, Credit
from trca.records import Floats, StepBatch


class DrGRPOParameters(TextParameters):
    """Hyperparameters of Dr. GRPO."""

    algorithm = "DrGRPO"

    credit: Credit = "dr_grpo"
    aggregation: Aggregation = own_default("aggregation", "rollout_sum")


@CREDIT_RULES.register("dr_grpo")
def dr_grpo(batch: StepBatch) -> Floats:
    """The outcome of the rollout minus the group's mean outcome, for every step, float64 (S,)."""
    return trajectory_advantage(batch, ddof=0, epsilon=0.0, divide=False)
