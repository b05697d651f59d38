"""Columns of a batch of steps: `StepBatch` for credit rules, and the tokens of responses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trca.records.rollout import Rollout, Step
from trca.rubric.rewards import Budgets, breakthrough_reward, foundational_reward

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class RubricRewards(NamedTuple):
    """The rubric rewards of a batch, one row per step."""

    foundational: Floats
    """float64 (S,), r^F."""
    breakthrough: Floats
    """float64 (S,), r^B."""


@dataclass(frozen=True)
class StepBatch:
    """The columns that a credit rule reads: S rows, one per step, and M operators.

    Rows of a rollout are contiguous and in time order; rollouts of a group need not be contiguous.

    Attributes:
        group: int64 (S,), the rollout group G(x).
        rollout: int64 (S,), unique over the batch and constant on a rollout's rows.
        agent: int64 (S,), code of the agent.
        reward: float64 (S,), environment reward r_{i,t}.
        observation: int64 (S,), code of the observation's text before the action.
        next_observation: int64 (S,), code of the text after the action, same coding.
        context: int64 (S,), code of the structural key before the action.
        next_context: int64 (S,), code of the key after the action, same coding.
        judgments: uint8 (S, M), rubric judgments.
        categories: int8 (M,), 0 Evidence, 1 Invalidity, 2 Execution.
        parsed: bool (S,), whether the response contains an action.
        accepted: bool (S,), whether the environment executed the action.
        terminated: bool (S,), True on the last row of a rollout that the environment ended.
        truncated: bool (S,), True on the last row of a rollout that the step limit ended.
        won: bool (S,), True on the last row of a rollout that completed its task.
        milestone: bool (S,), whether the action completed a subgoal of the environment; `None`
            if some step's environment has no milestones.
        texts: Texts of the observations by code; optional.

    Raises:
        ValueError: If the lengths of columns differ, or the rows of a rollout are not contiguous.
    """

    group: Ints
    rollout: Ints
    agent: Ints
    reward: Floats
    observation: Ints
    next_observation: Ints
    context: Ints
    next_context: Ints
    judgments: NDArray[np.uint8]
    categories: NDArray[np.int8]
    parsed: Bools
    accepted: Bools
    terminated: Bools
    truncated: Bools
    won: Bools
    milestone: Bools | None = None
    texts: tuple[str, ...] = ()
    _rewards: dict[Budgets, RubricRewards] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        for name in (f.name for f in fields(self)):
            column = getattr(self, name)
            if name == "categories" or not isinstance(column, np.ndarray):
                continue
            columns = (len(self.categories),) if name == "judgments" else ()
            if column.shape != (wanted := (len(self), *columns)):
                raise ValueError(f"column {name!r} has shape {column.shape}: give {wanted}")
        new = np.flatnonzero(np.diff(self.rollout)) + 1
        if len(np.unique(self.rollout[new])) < len(new) or self.rollout[:1] in self.rollout[new]:
            raise ValueError(
                "the rows of a rollout are not contiguous: group the rows by rollout, in time order"
            )

    def __len__(self) -> int:
        return len(self.rollout)

    @classmethod
    def from_rollouts(cls, rollouts: Sequence[Rollout], categories: NDArray[np.int8]) -> StepBatch:
        """Builds the columns of finished rollouts, in their order. Empty rollouts have no row.

        ``categories`` are those of the rollouts' rubric library, int8 (M,).
        """
        steps = [step for rollout in rollouts for step in rollout.steps]
        lengths = np.array([len(r.steps) for r in rollouts], dtype=np.int64)
        contexts = _codes([s.context for s in steps] + [s.next_context for s in steps])
        texts = [s.observation for s in steps]
        for rollout in rollouts:  # the texts after each step
            after = [s.observation for s in rollout.steps[1:]] + [rollout.last_observation]
            texts += after[: len(rollout.steps)]
        observations = _codes(texts)
        last = np.zeros(len(steps), dtype=bool)
        last[np.cumsum(lengths[lengths > 0]) - 1] = True
        truncated = np.repeat(np.array([r.truncated for r in rollouts], dtype=bool), lengths)
        won = np.repeat(np.array([r.won for r in rollouts], dtype=bool), lengths)
        judgments = [s.judgments for s in steps]
        milestones = [s.milestone for s in steps]
        return cls(
            group=np.repeat(np.array([r.group for r in rollouts], dtype=np.int64), lengths),
            rollout=np.repeat(np.arange(len(rollouts)), lengths),
            agent=np.repeat(_codes([r.agent_id for r in rollouts]), lengths),
            reward=np.array([s.reward for s in steps], dtype=np.float64),
            observation=observations[: len(steps)],
            next_observation=observations[len(steps) :],
            context=contexts[: len(steps)],
            next_context=contexts[len(steps) :],
            judgments=np.array(judgments, dtype=np.uint8).reshape(len(steps), len(categories)),
            categories=categories,
            parsed=np.array([s.parsed for s in steps], dtype=bool),
            accepted=np.array([s.accepted for s in steps], dtype=bool),
            terminated=last & ~truncated,
            truncated=last & truncated,
            won=last & won,
            milestone=None if None in milestones else np.array(milestones, dtype=bool),
            texts=tuple(dict.fromkeys(texts)),
        )

    def rubric_rewards(self, budgets: Budgets) -> RubricRewards:
        """Returns r^F and r^B of every step, and caches them by budgets."""
        if budgets not in self._rewards:
            self._rewards[budgets] = RubricRewards(
                foundational_reward(self.judgments, self.categories, budgets),
                breakthrough_reward(self.judgments, self.rollout, self.categories, budgets),
            )
        return self._rewards[budgets]

    def milestones(self, *, evidence: bool = False) -> Bools:
        """Returns for each step whether a milestone operator fires for the first time in a rollout.

        Execution operators are milestones, and Evidence operators if ``evidence`` is set.
        """
        budgets = Budgets(evidence=float(evidence), invalidity=0.0, execution=1.0)
        return self.rubric_rewards(budgets).breakthrough > 0.0


def _codes(keys: Iterable[str]) -> Ints:
    """Numbers the keys in order of first appearance. Equal keys have equal numbers."""
    seen: dict[str, int] = {}
    return np.array([seen.setdefault(key, len(seen)) for key in keys], dtype=np.int64)


def action_mask_of(steps: Sequence[Step], train_malformed: bool) -> Bools:
    """Returns the mask of the response tokens that enter the loss, bool (sum of R,).

    With ``train_malformed``, all tokens of a response without an action enter the loss.
    """
    responses = np.array([len(s.response_ids) for s in steps], dtype=np.int64)
    action = flat([s.action_mask for s in steps], np.bool_)
    if train_malformed:
        action |= np.repeat(action_counts(action, responses) == 0, responses)
    return action


def action_counts(action: Bools, responses: Ints) -> Ints:
    """Counts the action tokens of each response."""
    ends = np.concatenate([[0], np.cumsum(action)])[np.concatenate([[0], np.cumsum(responses)])]
    return np.asarray(np.diff(ends), dtype=np.int64)


def flat(arrays: Sequence[NDArray[Any]], dtype: type) -> NDArray[Any]:
    """Concatenates arrays; returns an empty array for no arrays."""
    return np.concatenate(arrays).astype(dtype) if arrays else np.empty(0, dtype)
