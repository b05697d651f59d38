"""`StepBatch`: the columns of a batch of steps that credit rules read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trca.records.rollout import Rollout
from trca.rubric.rewards import Budgets, breakthrough_reward, foundational_reward


class RubricRewards(NamedTuple):
    """The rubric rewards of a batch, one row per step."""

    foundational: NDArray[np.float64]
    """float64 (S,), r^F."""
    breakthrough: NDArray[np.float64]
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

    group: NDArray[np.int64]
    rollout: NDArray[np.int64]
    agent: NDArray[np.int64]
    reward: NDArray[np.float64]
    observation: NDArray[np.int64]
    next_observation: NDArray[np.int64]
    context: NDArray[np.int64]
    next_context: NDArray[np.int64]
    judgments: NDArray[np.uint8]
    categories: NDArray[np.int8]
    parsed: NDArray[np.bool_]
    accepted: NDArray[np.bool_]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    won: NDArray[np.bool_]
    milestone: NDArray[np.bool_] | None = None
    texts: tuple[str, ...] = ()
    _rewards: dict[Budgets, RubricRewards] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        for name in (f.name for f in fields(self) if f.init and f.name != "texts"):
            if name == "milestone" and self.milestone is None:
                continue
            shape = getattr(self, name).shape
            wanted: tuple[int, ...] = (len(self),)
            if name == "judgments":
                wanted = (len(self), len(self.categories))
            if name != "categories" and shape != wanted:
                raise ValueError(f"column {name!r} has shape {shape}: give {wanted}")
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

        Args:
            rollouts: The rollouts.
            categories: int8 (M,), the operators' categories of the rollouts' rubric library.
        """
        steps = [step for rollout in rollouts for step in rollout.steps]
        lengths = np.array([len(r.steps) for r in rollouts], dtype=np.int64)
        contexts = _codes([s.context for s in steps] + [s.next_context for s in steps])
        texts = [s.observation for s in steps]
        for rollout in filter(lambda rollout: rollout.steps, rollouts):  # the texts after each step
            texts += [s.observation for s in rollout.steps[1:]] + [rollout.last_observation]
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
        """Returns r^F and r^B of every step, and caches them by budgets.

        Args:
            budgets: Category budgets.
        """
        if budgets not in self._rewards:
            self._rewards[budgets] = RubricRewards(
                foundational_reward(self.judgments, self.categories, budgets),
                breakthrough_reward(self.judgments, self.rollout, self.categories, budgets),
            )
        return self._rewards[budgets]

    def milestones(self, *, evidence: bool = False) -> NDArray[np.bool_]:
        """Returns for each step whether a milestone operator fires for the first time in a rollout.

        Args:
            evidence: Whether Evidence operators are milestones beside Execution operators.
        """
        budgets = Budgets(evidence=float(evidence), invalidity=0.0, execution=1.0)
        return self.rubric_rewards(budgets).breakthrough > 0.0


def _codes(keys: Iterable[str]) -> NDArray[np.int64]:
    """Numbers the keys in order of first appearance. Equal keys have equal numbers."""
    seen: dict[str, int] = {}
    return np.array([seen.setdefault(key, len(seen)) for key in keys], dtype=np.int64)
