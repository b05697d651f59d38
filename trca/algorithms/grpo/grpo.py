"""GRPO: the outcome of a rollout against its group, on every step."""

from __future__ import annotations

from trca.algorithms.base.text_algorithm import TextAlgorithm
from trca.algorithms.base.text_config import TextAlgorithmConfig
from trca.algorithms.rules.grpo import GRPOParameters

__all__ = ["GRPO", "GRPOConfig", "GRPOParameters"]


class GRPOConfig(TextAlgorithmConfig):
    """Config of GRPO under the paper's common settings."""

    parameters_class = GRPOParameters


class GRPO(TextAlgorithm, config=GRPOConfig):
    """Group-relative policy optimization."""
