"""GRPO: group-relative outcome credit (`trca.algorithms.grpo.credit`)."""

from __future__ import annotations

from pydantic import Field

from trca.algorithms.parameters import TextParameters
from trca.algorithms.text_algorithm import TextAlgorithm
from trca.algorithms.text_config import TextAlgorithmConfig


class GRPOParameters(TextParameters):
    """Hyperparameters of GRPO."""

    credit: str = Field("grpo", description="Credit rule: a registered name or 'file.py:function'.")


class GRPOConfig(TextAlgorithmConfig):
    """Config of GRPO under the paper's common settings."""

    parameters_class = GRPOParameters

    def __init__(self, algo_class: type | None = None) -> None:
        super().__init__(algo_class=algo_class or GRPO)


class GRPO(TextAlgorithm):
    """Group-relative policy optimization."""

    @classmethod
    def get_default_config(cls) -> GRPOConfig:
        """The paper's common settings."""
        return GRPOConfig()
