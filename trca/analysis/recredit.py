"""Credits recorded rollouts again, and says what changes.

A are the advantages that the steps of recorded iterations were learned from, A' those of another
rule, or of the same one with other parameters, on the same rollouts::

    rank correlation    Spearman's rho of A and A' over all steps, and its mean over the groups in
                        which both vary
    signs               share of the steps by the sign of A and the sign of A'
    operators           mean A and mean A' of the steps on which an operator fired

No rollout is sampled and no model is loaded, so a rule that reads more than the batch (a critic,
log-probabilities, gold) has nothing to read here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from trca.records import Rollout, StepBatch, advantages_of

if TYPE_CHECKING:
    from trca.algorithms.credit.registry import BoundRule

SIGNS = ("-", "0", "+")


@dataclass(frozen=True)
class Recredited:
    """Two advantages of the same S steps.

    Attributes:
        before: float64 (S,), A.
        after: float64 (S,), A'.
        group: int64 (S,), the rollout group.
        won: bool (S,), whether the step's rollout completed its task.
        judgments: uint8 (S, M), what operators fired.
    """

    before: NDArray[np.float64]
    after: NDArray[np.float64]
    group: NDArray[np.int64]
    won: NDArray[np.bool_]
    judgments: NDArray[np.uint8]


@dataclass(frozen=True)
class Side:
    """What one rule says of the steps.

    Attributes:
        steps: Share of the steps with an advantage other than 0.
        groups: Share of the groups with such a step.
        positive: Share of the steps with a positive advantage.
        positive_in_lost: That share among the steps of failed rollouts; nan where none failed.
        negative_in_won: Share with a negative advantage among those of successful rollouts.
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
    """The steps on which an operator fired.

    Attributes:
        operator: Its id.
        steps: How many.
        before: Mean A; nan for no step.
        after: Mean A'.
        flipped: Share whose advantage has another sign.
    """

    operator: str
    steps: int
    before: float
    after: float
    flipped: float


@dataclass(frozen=True)
class Change:
    """What changes from one rule to another.

    Attributes:
        rollouts: Number of rollouts with a step.
        steps: Number of steps.
        groups: Number of groups.
        rank_correlation: Spearman's rho over all steps; nan where one side is constant.
        rank_correlation_in_groups: Its mean over the groups in which both sides vary.
        before: The rule that was.
        after: The other one.
        signs: Rows -, 0, + of A, columns -, 0, + of A'; shares of the steps.
        operators: One for each operator, in library order.
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
    iterations: Iterable[Sequence[Rollout]],
    rule: BoundRule,
    categories: NDArray[np.int8],
) -> tuple[Recredited, int]:
    """Credits the rollouts of iterations, each by itself.

    Args:
        iterations: The rollouts of each iteration, which have a step each.
        rule: The other rule.
        categories: int8 (M,), the categories of the operators that judged them.

    Returns:
        The advantages of all steps, and the number of rollouts.

    Raises:
        ValueError: For a rule that reads more than the batch, for rollouts without advantages, and
            when there is no step.
    """
    if rule.reads:
        raise ValueError(
            f"credit rule {rule.name!r} reads {', '.join(rule.reads)}, which a record does not"
            " hold: choose a rule that reads the batch alone"
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
    whole = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    return Recredited(**whole), count


def change(found: Recredited, rollouts: int, operators: Sequence[str]) -> Change:
    """Compares the two sides.

    Args:
        found: The advantages of all steps.
        rollouts: Number of rollouts.
        operators: Ids of the M operators.
    """
    before, after = found.before, found.after
    old, new = np.sign(before).astype(int) + 1, np.sign(after).astype(int) + 1
    signs = np.bincount(3 * old + new, minlength=9).reshape(3, 3) / len(old)
    fired = found.judgments.astype(bool)
    order = np.argsort(found.group, kind="stable")
    cuts = np.flatnonzero(np.diff(found.group[order])) + 1
    rhos = [_spearman(before[rows], after[rows]) for rows in np.split(order, cuts)]
    known = [rho for rho in rhos if not np.isnan(rho)]
    return Change(
        rollouts=rollouts,
        steps=len(before),
        groups=len(rhos),
        rank_correlation=_spearman(before, after),
        rank_correlation_in_groups=float(np.mean(known)) if known else float("nan"),
        before=_side(before, found),
        after=_side(after, found),
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


def _side(advantages: NDArray[np.float64], found: Recredited) -> Side:
    size = np.bincount(found.group)
    mean = np.bincount(found.group, advantages) / size
    variance = np.bincount(found.group, (advantages - mean[found.group]) ** 2) / size
    return Side(
        steps=_mean(advantages != 0),
        groups=_mean(np.bincount(found.group, advantages != 0) > 0),
        positive=_mean(advantages > 0),
        positive_in_lost=_mean(advantages[~found.won] > 0),
        negative_in_won=_mean(advantages[found.won] < 0),
        magnitude=_mean(np.abs(advantages)),
        spread=_mean(np.sqrt(variance)),
    )


def _mean(values: NDArray[np.float64] | NDArray[np.bool_]) -> float:
    return float(values.mean()) if len(values) else float("nan")


def _spearman(first: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """Spearman's rho; nan where one side does not vary."""
    if np.ptp(first) == 0 or np.ptp(other) == 0:
        return float("nan")
    from scipy.stats import spearmanr

    return float(spearmanr(first, other).statistic)
