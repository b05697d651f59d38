"""The read ``values``: the critic's values, and the share of variance that they explain.

The critic gives a value V after each token, from the tokens up to there. V(s_t), the value of the
state of turn t, is the value after the last prompt token.

::

    explained variance = 1 - Var(target - V_old) / Var(target)

V_old are the values at the time of credit. `trca.algorithms.learner.critic` has the loss.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from trca.algorithms.credit.arithmetic import rollout_spans
from trca.algorithms.credit.reads import Read, Sources
from trca.records import Bools, Floats, Ints, StepBatch
from trca.records.step_batch import action_mask_of
from trca.tune_configs.run_parameters import PositiveNumber, Probability, Settings

CriticKind = Literal["trunk", "own"]


class CriticSettings(Settings):
    """Hyperparameters of algorithms with a critic."""

    critic: CriticKind = "own"
    """Network of the values: a linear head on the policy's hidden states (trunk), or a separate
    network with the policy's start weights (own; with LoRA a second adapter)."""
    critic_lr: PositiveNumber = 1e-5
    """Learning rate of the critic's weights."""
    value_coeff: PositiveNumber = 1.0
    """Weight of the critic's loss; the objective has weight 1."""
    value_clip: PositiveNumber | None = 0.5
    """Clip of the difference to the old value in the loss; none: no clip."""
    gae_lambda: Probability = 1.0
    """Weight of later temporal differences: 0 trusts the critic, 1 the outcome."""


@dataclass(frozen=True)
class Values:
    """Values of S steps, H values per token."""

    state: Floats  # float64 (S, H), the value of the state before each step
    # float64 (S, H), the value of the state after each step: the value of the next step, of the
    # state at the step limit, or 0 at the end of the task
    after: Floats
    lengths: Ints  # int64 (S,), number R of response tokens of each step
    # float64 (sum of R, H), the value before each response token; before the first token, the
    # value of the state
    tokens: Floats
    action: Bools  # bool (sum of R,), the tokens that enter the objective


class ValuesRead(Read):
    """One pass of the critic over the steps, and over the states at the step limit."""

    def __call__(self, sources: Sources, batch: StepBatch) -> Values:
        """Returns the values."""
        steps = [step for rollout in sources.rollouts for step in rollout.steps]
        cut = [r for r in sources.rollouts if r.truncated and r.steps]
        beyond = [r.final_prompt_ids for r in cut if r.final_prompt_ids is not None]
        assert len(beyond) == len(cut), "a truncated rollout lacks the prompt of its last state"
        nothing = np.zeros(1, dtype=np.int32)  # a state has a value without any response token
        responses = [s.response_ids if len(s.response_ids) else nothing for s in steps]
        columns = sources.learners.values(
            [s.prompt_ids for s in steps] + beyond, responses + [nothing] * len(beyond)
        )
        heads = sources.config.settings.value_heads
        tokens = [v[: len(s.response_ids)] for v, s in zip(columns, steps, strict=False)]
        state = np.array([v[0] for v in columns[: len(steps)]], np.float64).reshape(-1, heads)
        after = np.zeros_like(state)
        starts, lengths = rollout_spans(batch.rollout)
        ends = starts + lengths - 1
        inside = np.ones(len(steps), dtype=bool)
        inside[ends] = False
        after[inside] = state[np.flatnonzero(inside) + 1]
        after[batch.truncated] = [v[0] for v in columns[len(steps) :]] if beyond else 0.0
        return Values(
            state=state,
            after=after,
            lengths=np.array([len(s.response_ids) for s in steps], dtype=np.int64),
            tokens=np.concatenate([*tokens, np.empty((0, heads))]).astype(np.float64),
            action=action_mask_of(steps, sources.config.settings.train_malformed),
        )

    def lack(self, sources: Sources) -> str:
        """Checks that the algorithm has a critic."""
        if sources.config.settings.critic_kind:
            return ""
        return (
            f"{sources.config.parameters_class.algorithm} has no critic: set algorithm to TurnPPO,"
            " or leave the parameter values out"
        )


VALUES: Final = ValuesRead()


def at_states(column: Floats, lengths: Ints) -> Floats:
    """A column of response tokens with a number at the first token of each step, nan elsewhere.

    From float64 (S,) to float64 (sum of R, 1); the result skips steps without tokens.
    """
    tokens = np.full((int(lengths.sum()), 1), np.nan)
    spoken = lengths > 0
    tokens[(np.cumsum(lengths) - lengths)[spoken], 0] = column[spoken]
    return tokens


def explained_variance(values: Floats, targets: Floats) -> float:
    """Share of the targets' variance that the values explain: 1 at best, 0 for a constant.

    Leaves out targets that are nan; nan for targets without variance.
    """
    given = ~np.isnan(targets)
    targets, values = targets[given], values[given]
    variance = float(np.var(targets)) if len(targets) else 0.0
    return 1.0 - float(np.var(targets - values)) / variance if variance > 0.0 else float("nan")
