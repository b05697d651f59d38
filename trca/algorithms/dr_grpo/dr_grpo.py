"""Dr. GRPO: GRPO without its biases of difficulty and of length."""

from __future__ import annotations

from trca.algorithms.base.text_algorithm import TextAlgorithm
from trca.algorithms.base.text_config import TextAlgorithmConfig
from trca.algorithms.rules.dr_grpo import DrGRPOParameters

__all__ = ["DrGRPO", "DrGRPOConfig", "DrGRPOParameters"]


class DrGRPOConfig(TextAlgorithmConfig):
    """Config of Dr. GRPO under the paper's common settings."""

    parameters_class = DrGRPOParameters


class DrGRPO(TextAlgorithm, config=DrGRPOConfig):
    """GRPO done right: no standard deviation, no division by length."""
