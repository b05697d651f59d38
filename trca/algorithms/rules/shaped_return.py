"""ShapedReturn: GRPO on the outcome plus the rubric rewards, a baseline for TRCA.

::

    r'_{i,t} = r_{i,t} + r^TRCA_{i,t},    r^TRCA = (1 - lambda) r^F + lambda r^B
    A_{i,t} = Norm over the rollouts of the group of sum_t r'_{i,t}
    A_{i,t} = Norm over all steps of the group of sum_{k >= t} gamma^(k-t) r'_{i,k}
                                                              (``return_to_go: true``)
    Norm(z) = (z - mean) / (std + 1e-6), ddof 1; 0 where std = 0

The rule reads the same judgments as TRCA. TRCA differs by the form of credit: an episode advantage
from the outcome without the rubric, and returns that are compared within context groups.

Where this differs from common practice:

=======================  ===========================================================================
Source                   No paper: the sum of all rewards is the usual way to add a process reward
                         to GRPO. ``return_to_go`` compares steps as GAGPO and G2PO do, over the
                         task.
Statistics               Over rollouts, one value each, as in `grpo`; over steps with
                         ``return_to_go``, so that long rollouts weigh more there.
Step of a rollout        ``return_to_go`` compares a first step with a last step: early steps have
                         longer discounted sums. The context groups of TRCA avoid this comparison.
Weight of the outcome    1, as TRCA's default. Budgets weigh the rubric.
Truncated episode        An episode like any other: its return ends at the last step.
=======================  ===========================================================================
"""

from __future__ import annotations

from dataclasses import replace

from trca.algorithms.credit.arithmetic import discounted_returns, joint_codes, normalize
from trca.algorithms.credit.registry import CREDIT_RULES
from trca.algorithms.rules.grpo import trajectory_advantage
from trca.algorithms.settings.parameters import TextParameters
from trca.algorithms.settings.types import Credit, Probability
from trca.records import Floats, StepBatch
from trca.rubric.rewards import DEFAULT_LAMBDA, trca_reward


class ShapedReturnParameters(TextParameters):
    """Hyperparameters of ShapedReturn."""

    algorithm = "ShapedReturn"
    credit_settings = frozenset({"gamma", "budgets"})

    credit: Credit = "shaped_return"
    lambda_: Probability = DEFAULT_LAMBDA
    """Weight lambda of the Breakthrough reward against the Foundational one."""
    return_to_go: bool = False
    """Credit a step with the discounted rewards from the step on, compared over all steps of the
    group; otherwise with the sum of the rollout, compared over rollouts."""


@CREDIT_RULES.register("shaped_return")
def shaped_return(
    batch: StepBatch, parameters: ShapedReturnParameters, *, epsilon: float = 1e-6
) -> Floats:
    """The normalised sum of all rewards of the rollout, or from each step on, float64 (S,)."""
    rubric = trca_reward(*batch.rubric_rewards(parameters.budgets), parameters.lambda_)
    shaped = replace(batch, reward=batch.reward + rubric)
    if not parameters.return_to_go:
        return trajectory_advantage(shaped, ddof=1, epsilon=epsilon)
    returns = discounted_returns(shaped.reward, batch.rollout, parameters.gamma)
    return normalize(returns, joint_codes(batch.group), ddof=1, epsilon=epsilon)
