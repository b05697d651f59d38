"""IGPO: credit for what a step adds to the policy's own probability of the right answer."""

from __future__ import annotations

from trca.algorithms.base.text_algorithm import TextAlgorithm
from trca.algorithms.base.text_config import TextAlgorithmConfig
from trca.algorithms.igpo.credit import IGPOParameters

__all__ = ["IGPO", "IGPOConfig", "IGPOParameters"]


class IGPOConfig(TextAlgorithmConfig):
    """Config of IGPO under the paper's common settings."""

    parameters_class = IGPOParameters


class IGPO(TextAlgorithm, config=IGPOConfig):
    """Information gain-based policy optimization."""
