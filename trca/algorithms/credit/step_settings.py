"""Settings of rules that compare steps, each in one class; a rule extends what it reads."""

from __future__ import annotations

from typing import Literal, get_args

from pydantic import Field

from trca.algorithms.credit.anchors import AnchorKind
from trca.algorithms.settings.parameters import TextParameters
from trca.common.names import unknown

Normalizer = Literal["std", "one"]


class AnchorParameters(TextParameters):
    """What rules share that compare steps from the same state."""

    anchor: AnchorKind = Field(
        "context",
        description="What makes two states the same: context key, observation text, or similar "
        "observation texts.",
    )
    similarity: float = Field(
        0.9,
        gt=0.0,
        le=1.0,
        description="Least ratio (difflib) of two texts that are one anchor, for anchor similar.",
    )


class PenaltyParameters(AnchorParameters):
    """And take something from a step without an action."""

    invalid_action_penalty: float = Field(
        0.01,
        ge=0.0,
        description="Taken from a step whose response held no action, of an outcome of 1 "
        "(public code: 0.1 of 10).",
    )


class StepCreditParameters(PenaltyParameters):
    """And are of the form A^E + omega A^S."""

    omega: float = Field(1.0, ge=0.0, description="Weight omega of the step advantage.")
    normalizer: Normalizer = Field(
        "std", description="Divide advantages by the standard deviation, or by one."
    )


def divides(normalizer: Normalizer) -> bool:
    """Whether advantages are divided by the standard deviation.

    Raises:
        ValueError: For an unknown normalizer.
    """
    if normalizer not in get_args(Normalizer):
        raise unknown("normalizer", normalizer, get_args(Normalizer))
    return normalizer == "std"
