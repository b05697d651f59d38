"""GRPO: group-relative outcome credit (`trca.algorithms.grpo.credit`)."""

from __future__ import annotations

from trca.algorithms.grpo.credit import GRPOParameters
from trca.algorithms.text_algorithm import TextAlgorithm
from trca.algorithms.text_config import TextAlgorithmConfig


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
