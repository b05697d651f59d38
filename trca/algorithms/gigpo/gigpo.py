"""GiGPO: outcome credit plus credit against steps from the same state."""

from __future__ import annotations

from trca.algorithms.base.text_algorithm import TextAlgorithm
from trca.algorithms.base.text_config import TextAlgorithmConfig
from trca.algorithms.gigpo.credit import GiGPOParameters

__all__ = ["GiGPO", "GiGPOConfig", "GiGPOParameters"]


class GiGPOConfig(TextAlgorithmConfig):
    """Config of GiGPO under the paper's common settings."""

    parameters_class = GiGPOParameters


class GiGPO(TextAlgorithm, config=GiGPOConfig):
    """Group-in-group policy optimization."""
