"""Credits recorded rollouts with another rule, and compares the advantages.

A are the recorded advantages. A' are the advantages of another rule, or of the same rule with other
parameters, on the same rollouts::

    rank correlation    Spearman's rho of A and A' over all steps, and its mean over the groups
                        where both A and A' vary
    signs               share of the steps by the sign of A and the sign of A'
    operators           mean A and mean A' of the steps on which an operator fired

The comparison samples no rollouts and loads no model. Rules that read more than the batch (a
critic, log-probabilities, gold answers) are not supported.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from trca.records import Rollout, StepBatch, advantages_of
from trca.runs.success_tables import rank_correlation

if TYPE_CHECKING:
    from trca.algorithms.credit.registry import BoundRule

SIGNS = ("-", "0", "+")


@dataclass(frozen=True)
class Recredited:
    """Two advantages of the same S steps: A before, and A' after.

    Attributes:
        before: float64 (S,), A.
        after: float64 (S,), A'.
        group: int64 (S,), the rollout group.
        won: bool (S,), whether the step's rollout completed its task.
        judgments: uint8 (S, M), whether each operator fired.
    """

    before: NDArray[np.float64]
    after: NDArray[np.float64]
    group: NDArray[np.int64]
    won: NDArray[np.bool_]
    judgments: NDArray[np.uint8]


@dataclass(frozen=True)
class Side:
    """Statistics of a rule's advantages.

    Attributes:
        steps: Share of the steps with a nonzero advantage.
        groups: Share of the groups with such a step.
        positive: Share of the steps with a positive advantage.
        positive_in_lost: Share of positive advantages in failed rollouts; NaN without a failure.
        negative_in_won: Share of negative advantages in successful rollouts; NaN without a success.
        magnitude: Mean absolute advantage.
        spread: Mean standard deviation within a group (ddof 0).
    """

    steps: float
    groups: float
    positive: float
    positive_in_lost: float
    negative_in_won: float
    magnitude: float
    spread: float


@dataclass(frozen=True)
class Fired:
    """The steps on which an operator fired: means of A and A', share of other signs.

    The means are NaN for no step.
    """

    operator: str
    steps: int
    before: float
    after: float
    flipped: float


@dataclass(frozen=True)
class Change:
    """The differences between two rules.

    Attributes:
        rollouts: Number of rollouts with a step.
        rank_correlation: Spearman's rho over all steps; NaN if A or A' is constant.
        rank_correlation_in_groups: Mean of Spearman's rho over the groups where A and A' vary.
        signs: Shares of the steps; rows -, 0, + of A, columns -, 0, + of A'.
        operators: One entry per operator, in library order.
    """

    rollouts: int
    steps: int
    groups: int
    rank_correlation: float
    rank_correlation_in_groups: float
    before: Side
    after: Side
    signs: list[list[float]]
    operators: list[Fired]


def recredit(
    iterations: Iterable[Sequence[Rollout]], rule: BoundRule, categories: NDArray[np.int8]
) -> tuple[Recredited, int]:
    """Credits the rollouts of each iteration by a rule; each rollout must have a step.

    ``categories``, int8 (M,), are those of the rollouts' operators. Returns the advantages of all
    steps, and the number of rollouts.

    Raises:
        ValueError: If the rule reads more than the batch, a rollout has no advantages, or there is
            no step.
    """
    if rule.reads:
        raise ValueError(
            f"credit rule {rule.name!r} reads {', '.join(rule.reads)}, which a record does not"
            " contain: choose a rule that reads only the batch"
        )
    parts, groups, count = list[Recredited](), 0, 0
    for rollouts in iterations:
        batch = StepBatch.from_rollouts(rollouts, categories)
        number = np.unique(batch.group, return_inverse=True)[1]
        lengths = [len(rollout.steps) for rollout in rollouts]
        parts.append(
            Recredited(
                before=advantages_of(rollouts),
                after=rule(batch),
                group=groups + number,
                won=np.repeat(np.array([r.won for r in rollouts], bool), lengths),
                judgments=batch.judgments,
            )
        )
        groups += len(np.unique(batch.group))
        count += len(rollouts)
    if not count:
        raise ValueError("no rollout with a step is recorded")
    names = ("before", "after", "group", "won", "judgments")
    columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    return Recredited(**columns), count


def change(credited: Recredited, rollouts: int, operators: Sequence[str]) -> Change:
    """Compares the advantages of two rules on the steps of some rollouts, with M operators."""
    before, after = credited.before, credited.after
    old, new = np.sign(before).astype(int) + 1, np.sign(after).astype(int) + 1
    signs = np.bincount(3 * old + new, minlength=9).reshape(3, 3) / len(old)
    fired = credited.judgments.astype(bool)
    order = np.argsort(credited.group, kind="stable")
    cuts = np.flatnonzero(np.diff(credited.group[order])) + 1
    rhos = [rank_correlation(before[rows], after[rows]) for rows in np.split(order, cuts)]
    defined = [rho for rho in rhos if not np.isnan(rho)]
    return Change(
        rollouts=rollouts,
        steps=len(before),
        groups=len(rhos),
        rank_correlation=rank_correlation(before, after),
        rank_correlation_in_groups=float(np.mean(defined)) if defined else float("nan"),
        before=_side(before, credited),
        after=_side(after, credited),
        signs=signs.tolist(),
        operators=[
            Fired(
                name,
                int(fired[:, number].sum()),
                _mean(before[fired[:, number]]),
                _mean(after[fired[:, number]]),
                _mean((old != new)[fired[:, number]]),
            )
            for number, name in enumerate(operators)
        ],
    )


def _side(advantages: NDArray[np.float64], credited: Recredited) -> Side:
    size = np.bincount(credited.group)
    mean = np.bincount(credited.group, advantages) / size
    variance = np.bincount(credited.group, (advantages - mean[credited.group]) ** 2) / size
    return Side(
        steps=_mean(advantages != 0),
        groups=_mean(np.bincount(credited.group, advantages != 0) > 0),
        positive=_mean(advantages > 0),
        positive_in_lost=_mean(advantages[~credited.won] > 0),
        negative_in_won=_mean(advantages[credited.won] < 0),
        magnitude=_mean(np.abs(advantages)),
        spread=_mean(np.sqrt(variance)),
    )


def _mean(values: NDArray[np.float64] | NDArray[np.bool_]) -> float:
    return float(values.mean()) if len(values) else float("nan")
