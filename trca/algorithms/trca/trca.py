"""TRCA: outcome credit plus transition-wise rubric credit (`trca.algorithms.trca.credit`)."""

from __future__ import annotations

from pydantic import Field

from trca.algorithms.parameters import Probability, TextParameters
from trca.algorithms.text_algorithm import TextAlgorithm
from trca.algorithms.text_config import TextAlgorithmConfig


class TRCAParameters(TextParameters):
    """Hyperparameters of TRCA."""

    credit: str = Field("trca", description="Credit rule: a registered name or 'file.py:function'.")
    lambda_: Probability = Field(
        0.8, description="Weight lambda of the Breakthrough reward against the Foundational one."
    )


class TRCAConfig(TextAlgorithmConfig):
    """Config of TRCA; the defaults are the paper's."""

    parameters_class = TRCAParameters

    def __init__(self, algo_class: type | None = None) -> None:
        super().__init__(algo_class=algo_class or TRCA)


class TRCA(TextAlgorithm):
    """Transition-wise rubric credit assignment."""

    needs_rubric = True

    @classmethod
    def get_default_config(cls) -> TRCAConfig:
        """The paper's settings."""
        return TRCAConfig()
