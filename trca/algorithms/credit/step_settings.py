"""Settings of rules that compare steps; a rule extends the class with the settings it reads."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from trca.algorithms.credit.anchors import AnchorKind
from trca.algorithms.settings.parameters import TextParameters

Normalizer = Literal["std", "one"]


class AnchorParameters(TextParameters):
    """Rules that compare steps from the same state."""

    anchor: AnchorKind = Field(
        default="context",
        description="Equality of two states: context key, observation text, or similar "
        "observation texts.",
    )
    similarity: float = Field(
        default=0.9,
        gt=0.0,
        le=1.0,
        description="Least ratio (difflib) of two texts with one anchor, for anchor similar.",
    )


class PenaltyParameters(AnchorParameters):
    """Rules that also penalise a step without an action."""

    invalid_action_penalty: float = Field(
        default=0.01,
        ge=0.0,
        description="Penalty of a step whose response holds no action, for an outcome of 1 "
        "(public code: 0.1 for an outcome of 10).",
    )


class StepCreditParameters(PenaltyParameters):
    """Rules of the form A^E + omega A^S."""

    omega: float = Field(default=1.0, ge=0.0, description="Weight omega of the step advantage.")
    normalizer: Normalizer = Field(
        default="std", description="Divisor of advantages: the standard deviation, or one."
    )
