"""GiGPO: group-in-group credit (`trca.algorithms.gigpo.credit`)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from trca.algorithms.parameters import TextParameters
from trca.algorithms.text_algorithm import TextAlgorithm
from trca.algorithms.text_config import TextAlgorithmConfig


class GiGPOParameters(TextParameters):
    """Hyperparameters of GiGPO; defaults are its public code's for ALFWorld."""

    credit: str = Field(
        "gigpo", description="Credit rule: a registered name or 'file.py:function'."
    )
    omega: float = Field(1.0, ge=0.0, description="Weight omega of the step advantage.")
    normalizer: Literal["std", "one"] = Field(
        "std", description="Divide advantages by the standard deviation, or by one."
    )
    baseline_over: Literal["trajectory", "step_row"] = Field(
        "trajectory", description="What the outcome's statistics count (public code: step_row)."
    )
    anchor: Literal["context", "observation"] = Field(
        "context", description="What makes two states the same: context key or observation text."
    )
    invalid_action_penalty: float = Field(
        0.1, ge=0.0, description="Taken from a step whose response held no command."
    )


class GiGPOConfig(TextAlgorithmConfig):
    """Config of GiGPO under the paper's common settings."""

    parameters_class = GiGPOParameters

    def __init__(self, algo_class: type | None = None) -> None:
        super().__init__(algo_class=algo_class or GiGPO)


class GiGPO(TextAlgorithm):
    """Group-in-group policy optimization."""

    @classmethod
    def get_default_config(cls) -> GiGPOConfig:
        """The paper's common settings."""
        return GiGPOConfig()
