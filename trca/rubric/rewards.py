"""The rubric rewards r^F, r^B and r^TRCA (Appendix C of the paper), over columns of transitions.

Everything takes the rows of any number of rollouts at once (S transitions, M operators) and runs in
time linear in S x M.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

_INVALIDITY = 1


@dataclass(frozen=True)
class Budgets:
    """The budgets of the categories; the paper gives none, so the default is neutral.

    Attributes:
        evidence: r^Evi, the most that Evidence adds to one transition.
        invalidity: |r^Inval|, the most that Invalidity takes from one transition.
        execution: r^Exec, the most that Execution adds to one transition.
    """

    evidence: float = 1.0
    invalidity: float = 1.0
    execution: float = 1.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if not number or not math.isfinite(value) or value < 0:
                raise ValueError(
                    f"the {field.name} budget is {value!r}: give a finite number of at least 0"
                    " (the sign of invalidity is the formula's)"
                )


def contributions(categories: NDArray[np.int8], budgets: Budgets) -> NDArray[np.float64]:
    """The signed contribution q of each operator when it fires (Eq. app_item_contribution).

    Args:
        categories: int8 (M,), 0 Evidence, 1 Invalidity, 2 Execution.
        budgets: The category budgets; each is shared equally by the M_c operators of its category.

    Returns:
        float64 (M,).
    """
    counts = np.bincount(categories, minlength=3)
    signed = np.array([budgets.evidence, -budgets.invalidity, budgets.execution])
    return np.asarray((signed / np.maximum(counts, 1))[categories], dtype=np.float64)


def foundational_reward(
    judgments: NDArray[np.uint8], categories: NDArray[np.int8], budgets: Budgets
) -> NDArray[np.float64]:
    """r^F: the contributions of the operators that fire (Eq. app_foundational_reward).

    Args:
        judgments: uint8 (S, M), 0 or 1.
        categories: int8 (M,).
        budgets: The category budgets.

    Returns:
        float64 (S,), in [-invalidity, evidence + execution].
    """
    return judgments @ contributions(categories, budgets)


def breakthrough_reward(
    judgments: NDArray[np.uint8],
    rollout: NDArray[np.int64],
    categories: NDArray[np.int8],
    budgets: Budgets,
) -> NDArray[np.float64]:
    """r^B: the positive operators that fire for the first time (Eq. app_breakthrough_expanded).

    Args:
        judgments: uint8 (S, M), 0 or 1.
        rollout: int64 (S,), the rollout of each row; its rows are contiguous and in time order.
        categories: int8 (M,).
        budgets: The category budgets.

    Returns:
        float64 (S,), at least 0; over a rollout it adds up to at most evidence + execution.
    """
    weights = contributions(categories, budgets)
    positive = np.flatnonzero(categories != _INVALIDITY)
    operator, row = np.nonzero(judgments.T[positive])
    first = np.ones(len(row), dtype=bool)
    first[1:] = (operator[1:] != operator[:-1]) | (rollout[row[1:]] != rollout[row[:-1]])
    fresh = weights[positive[operator[first]]]
    return np.asarray(np.bincount(row[first], fresh, len(judgments)), dtype=np.float64)


def trca_reward(
    r_f: NDArray[np.float64], r_b: NDArray[np.float64], lambda_: float
) -> NDArray[np.float64]:
    """r^TRCA = (1 - lambda) r^F + lambda r^B (Eq. app_trca_reward).

    Args:
        r_f: float64 (S,), foundational.
        r_b: float64 (S,), breakthrough.
        lambda_: Weight of the breakthrough reward, in [0, 1].

    Raises:
        ValueError: When ``lambda_`` is outside [0, 1].
    """
    if not 0.0 <= lambda_ <= 1.0:
        raise ValueError(f"lambda is {lambda_}: give a number from 0 to 1")
    return (1.0 - lambda_) * r_f + lambda_ * r_b
