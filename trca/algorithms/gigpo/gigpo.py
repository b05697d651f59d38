"""GiGPO: group-in-group credit (`trca.algorithms.gigpo.credit`)."""

from __future__ import annotations

from trca.algorithms.gigpo.credit import GiGPOParameters
from trca.algorithms.text_algorithm import TextAlgorithm
from trca.algorithms.text_config import TextAlgorithmConfig


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
