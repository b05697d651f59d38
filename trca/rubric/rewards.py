"""The rubric rewards r^F, r^B and r^TRCA (Appendix C of the paper).

The functions take columns: the rows of any number of rollouts at once (S transitions, M operators),
in time linear in S x M. `EpisodeRewards` computes the same numbers one transition at a time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from trca.common.names import unknown

Reward = TypeVar("Reward", float, NDArray[np.float64])
_INVALIDITY: Final = 1
DEFAULT_LAMBDA: Final = 0.8
"""The weight of the breakthrough reward in the paper."""


class Budgets(BaseModel):
    """Largest contribution of each category to the reward of one transition.

    The paper gives no values, so the defaults are equal.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    evidence: float = Field(1.0, ge=0.0, description="r^Evi, largest contribution of Evidence.")
    invalidity: float = Field(
        1.0, ge=0.0, description="r^Inval, largest penalty of Invalidity; at least 0."
    )
    execution: float = Field(1.0, ge=0.0, description="r^Exec, largest contribution of Execution.")

    @classmethod
    def of(cls, budgets: Budgets | Mapping[str, float] | None) -> Budgets:
        """Converts budgets from a mapping, or from None for the defaults.

        Raises:
            ValueError: For an unknown name or a value that is not a finite number of at least 0.
        """
        if isinstance(budgets, Budgets):
            return budgets
        if budgets is not None and not isinstance(budgets, Mapping):
            raise ValueError(f"budgets is {budgets!r}: give a number for each category")
        try:
            return cls.model_validate({str(k): value for k, value in (budgets or {}).items()})
        except ValidationError as error:
            detail = error.errors(include_url=False)[0]
            name = detail["loc"][0]
            if detail["type"] == "extra_forbidden":
                raise unknown("budget", name, cls.model_fields) from None
            raise ValueError(
                f"the {name} budget is {detail['input']!r}: give a finite number of at least 0"
                " (the sign of invalidity is the formula's)"
            ) from None


def contributions(categories: NDArray[np.int8], budgets: Budgets) -> NDArray[np.float64]:
    """The signed contribution q of each operator when it fires (Eq. app_item_contribution).

    Args:
        categories: int8 (M,), 0 Evidence, 1 Invalidity, 2 Execution.
        budgets: The category budgets. The M_c operators of a category share its budget equally.

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
        rollout: int64 (S,), the rollout of each row. The rows of a rollout are contiguous and in
            time order.
        categories: int8 (M,).
        budgets: The category budgets.

    Returns:
        float64 (S,), at least 0. The sum over a rollout is at most evidence + execution.
    """
    weights = contributions(categories, budgets)
    positive = np.flatnonzero(categories != _INVALIDITY)
    operator, row = np.nonzero(judgments.T[positive])
    first = np.ones(len(row), dtype=bool)
    first[1:] = (operator[1:] != operator[:-1]) | (rollout[row[1:]] != rollout[row[:-1]])
    fresh = weights[positive[operator[first]]]
    return np.asarray(np.bincount(row[first], fresh, len(judgments)), dtype=np.float64)


def trca_reward(r_f: Reward, r_b: Reward, lambda_: float) -> Reward:
    """r^TRCA = (1 - lambda) r^F + lambda r^B (Eq. app_trca_reward).

    Args:
        r_f: Foundational reward: float64 (S,), or one number.
        r_b: Breakthrough reward: float64 (S,), or one number.
        lambda_: Weight of the breakthrough reward, in [0, 1].

    Raises:
        ValueError: If ``lambda_`` is outside [0, 1].
    """
    check_share("lambda", lambda_)
    return (1.0 - lambda_) * r_f + lambda_ * r_b


class EpisodeRewards:
    """r^F, r^B and r^TRCA of an episode, one transition at a time."""

    def __init__(
        self,
        categories: NDArray[np.int8],
        budgets: Budgets | Mapping[str, float] | None = None,
        lambda_: float = DEFAULT_LAMBDA,
    ) -> None:
        """Prepares for the first episode; see `contributions` and `trca_reward`.

        Raises:
            ValueError: If ``lambda_`` is outside [0, 1].
        """
        check_share("lambda", lambda_)
        self._lambda = lambda_
        self._weights = contributions(categories, Budgets.of(budgets)).tolist()
        self._positive = (categories != _INVALIDITY).tolist()
        self._covered: set[int] = set()

    def reset(self) -> None:
        """Starts an episode without covered operators."""
        self._covered.clear()

    def step(self, judgments: NDArray[np.uint8]) -> tuple[float, float, float]:
        """r^F, r^B and r^TRCA of the next transition, from its judgments: uint8 (M,), 0 or 1."""
        foundational = breakthrough = 0.0
        for operator in judgments.nonzero()[0].tolist():
            weight = self._weights[operator]
            foundational += weight
            if self._positive[operator] and operator not in self._covered:
                self._covered.add(operator)
                breakthrough += weight
        return foundational, breakthrough, trca_reward(foundational, breakthrough, self._lambda)


def check_share(name: str, value: float) -> None:
    """Raises a ValueError with the name of a number, such as a discount, outside [0, 1]."""
    if not isinstance(value, int | float) or not 0.0 <= value <= 1.0:
        raise ValueError(f"{name} is {value!r}: give a number from 0 to 1")
