"""IGPO: credit for what a step adds to the policy's own probability of the right answer."""

from __future__ import annotations

from trca.algorithms.igpo.credit import IGPOParameters
from trca.algorithms.text_algorithm import TextAlgorithm
from trca.algorithms.text_config import TextAlgorithmConfig

__all__ = ["IGPO", "IGPOConfig", "IGPOParameters"]


class IGPOConfig(TextAlgorithmConfig):
    """Config of IGPO under the paper's common settings."""

    parameters_class = IGPOParameters


class IGPO(TextAlgorithm, config=IGPOConfig):
    """Information gain-based policy optimization."""
