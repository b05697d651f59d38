"""BEACON: credit inside the segments between milestones (Wang et al., arXiv 2605.06078).

::

    k_t = number of milestones that the rollout completes before step t
    r_t = gamma^(t_k - t) up to the step t_k that completes the next milestone, 0 without one
    A^traj(tau_i) = (R(tau_i) - mean) / F    over the rollouts of the group
    A^seg(a_{i,t}) = (r_t - mean) / F        over the steps of the group with the same k_t
    A_{i,t} = A^traj(tau_i) + omega A^seg(a_{i,t}),    F = 1 or std + 1e-6 (ddof 1)

The milestones come from one of three sources:

- ``milestones: execution`` and ``evidence_and_execution``: a step at which an operator of these
  categories fires for the first time in the rollout. These milestones read no answer, only
  judgments that TRCA reads.
- ``milestones: environment``: the ``milestone`` of the environment's ``info``.
- ``credit: beacon_walkthrough``: the public ALFWorld variant. The milestones are the actions of a
  walkthrough, in order; a step completes the next milestone if its action has a ratio (difflib) of
  at least ``similarity`` to the milestone. A walkthrough solves the task, so it is gold: set
  ``gold_in_training: true``, which results show.

Where this differs from the paper or the public code (``migpo/core_migpo.py``). Sizes are for 1,011
steps of 64 rollouts in 8 tasks of ALFWorld, half of the actions random, with ``normalizer: one``:

=======================  ===========================================================================
The paper                Its text was not at hand: the equations come from README and code. The
                         README compares only rollouts that reached the same milestone; the code
                         also compares the steps after the last milestone, with reward 0, as here.
Milestones in ALFWorld   Operators. README: object and state predicates. The code's file has, for
                         all 3,553 official training games, exactly the walkthrough of the game
                         file, "go to" included: ``beacon_walkthrough``. Generated games have no
                         walkthrough in their file; the oracle plays one. In the 1,011 steps the
                         walkthroughs complete 382 milestones, 5 of them by another action with a
                         similar text (mug 2 for mug 1). Execution operators complete 278, at 273
                         of the same steps; with Evidence 422, at 337 of the same steps.
Milestones in WebShop    Operators. The code compares products, options and price with the goal's
                         hidden attributes, which is gold, and sees four milestones in a fixed
                         order.
Milestones per step      At most one, also if several operators fire.
Segments of A^seg        From rows in time order. The code counts them after the trainer has copied
                         some rows and put all rows into another order (``balance_batch``), while
                         the rewards are from the right order: for rows dealt to 8 GPUs, 726 steps
                         get another segment, and every advantage changes, by up to .53.
WebShop in the code      Raises an error: the trainer takes the truth of an array, in
                         ``get("milestone_achieved") or get("subgoal_completed")``.
Baseline of A^traj       Over rollouts; the code takes the statistics over step rows, minus the
                         penalty of each row: 325 steps, by up to .083.
Outcome and milestone    1 and 1; the code has 10 and 10, so its advantages are ten times as large
                         with ``normalizer: one``.
F                        1, as in all scripts of the code (``mode=mean_norm``).
omega, gamma             1 and .95, as in README and in the scripts of WebShop and ScienceWorld; the
                         ALFWorld script has 10 and .9.
Invalid action           ``invalid_action_penalty``, subtracted from r_t: 0.01 for a milestone of 1.
                         The scripts have 0.1 of 10 (ALFWorld, ScienceWorld) and 1 of 10 (WebShop).
Zero variance            Exactly 0; with ``normalizer: std`` the code divides a rounding error by
                         1e-6.
Groups of one            A^traj and A^seg are 0; the code leaves the raw outcome in A^traj.
=======================  ===========================================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from typing import Literal

import numpy as np

from trca.algorithms.credit.arithmetic import joint_codes, normalize, rollout_spans, segment_numbers
from trca.algorithms.credit.registry import CREDIT_RULES
from trca.algorithms.rules.grpo import trajectory_advantage
from trca.algorithms.settings.parameters import TextParameters
from trca.algorithms.settings.types import Credit, NonNegative, Normalizer, Share
from trca.records import Bools, Floats, Ints, StepBatch

Milestones = Literal["execution", "evidence_and_execution", "environment"]


class BEACONParameters(TextParameters):
    """Hyperparameters of BEACON."""

    algorithm = "BEACON"

    credit: Credit = "beacon"
    milestones: Milestones = "execution"
    """Source of milestones: first firings of operators by category, or the environment's info.
    Credit beacon_walkthrough takes the actions of a walkthrough."""
    omega: NonNegative = 1.0
    """Weight of the segment advantage (lambda of the README)."""
    normalizer: Normalizer = "one"
    """Divisor of advantages: the standard deviation, or one."""
    similarity: Share = 0.95
    """Least ratio (difflib) of an action and a walkthrough's action, for credit beacon_walkthrough.
    """
    invalid_action_penalty: NonNegative = 0.01
    """Penalty of a step whose response holds no action, for a milestone of 1 (public code: 0.1 for
    a milestone of 10)."""

    def needs_rubric(self) -> bool:
        """Whether the milestones are operators."""
        return self.credit == self.own_rule() and self.milestones != "environment"

    def conflict(self) -> str:
        """As for every algorithm; a message of a team has no milestone of the environment."""
        if self.milestones == "environment" and self.env_config.get("team") is not None:
            return (
                "milestones is 'environment', and a message of a team completes none: set"
                " milestones to execution, or leave env_config.team out"
            )
        return super().conflict()


@CREDIT_RULES.register("beacon")
def beacon(batch: StepBatch, parameters: BEACONParameters, *, epsilon: float = 1e-6) -> Floats:
    """The advantage A^traj + omega A^seg of every step, float64 (S,).

    Raises:
        ValueError: If ``milestones`` is ``environment`` and the environment reports none.
    """
    if parameters.milestones != "environment":
        evidence = parameters.milestones == "evidence_and_execution"
        completes = batch.milestones(evidence=evidence)
    elif batch.milestone is not None:
        completes = batch.milestone
    elif not len(batch):
        completes = np.zeros(0, dtype=bool)
    else:
        raise ValueError(
            "milestones is 'environment', and the environment reports no milestone: set milestone"
            " in its Outcome or info, or set milestones to execution"
        )
    return _advantages(batch, completes, parameters, epsilon)


@CREDIT_RULES.register("beacon_walkthrough")
def beacon_walkthrough(
    batch: StepBatch,
    parameters: BEACONParameters,
    *,
    actions: Sequence[str],
    gold_walkthrough: Sequence[tuple[str, ...]],
    epsilon: float = 1e-6,
) -> Floats:
    """As `beacon`, with the actions of a walkthrough as milestones, float64 (S,)."""
    completes = np.zeros(len(batch), dtype=bool)
    for start, length in zip(*rollout_spans(batch.rollout), strict=True):
        ahead = list(reversed(gold_walkthrough[start]))
        for step in range(start, start + length):
            if ahead and _ratio(actions[step], ahead[-1]) >= parameters.similarity:
                completes[step] = True
                ahead.pop()
    return _advantages(batch, completes, parameters, epsilon)


def segments(completes: Bools, rollout: Ints, gamma: float) -> tuple[Ints, Floats]:
    """Number k_t and reward r_t of each step's segment, int64 (S,) and float64 (S,)."""
    starts, lengths = rollout_spans(rollout)
    row, last = np.arange(len(rollout)), np.repeat(starts + lengths - 1, lengths)
    marks = np.where(completes, row, len(row))
    ahead = np.minimum.accumulate(marks[::-1])[::-1]
    completed = ahead <= last
    rewards = np.where(completed, gamma ** np.where(completed, ahead - row, 0), 0.0)
    return segment_numbers(completes, rollout), rewards


def _advantages(
    batch: StepBatch, completes: Bools, parameters: BEACONParameters, epsilon: float
) -> Floats:
    divide = parameters.normalizer == "std"
    number, rewards = segments(completes, batch.rollout, parameters.gamma)
    rewards = rewards - parameters.invalid_action_penalty * ~batch.parsed
    groups = joint_codes(batch.group, number)
    segment = normalize(rewards, groups, ddof=1, epsilon=epsilon, divide=divide)
    trajectory = trajectory_advantage(batch, ddof=1, epsilon=epsilon, divide=divide)
    return trajectory + parameters.omega * segment


@lru_cache(maxsize=65_536)
def _ratio(action: str, milestone: str) -> float:
    return SequenceMatcher(None, action, milestone).ratio()
