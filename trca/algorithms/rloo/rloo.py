"""RLOO: the outcome of a rollout minus the mean of the rest of the group."""

from __future__ import annotations

from trca.algorithms.base.text_algorithm import TextAlgorithm
from trca.algorithms.base.text_config import TextAlgorithmConfig
from trca.algorithms.rules.rloo import RLOOParameters

__all__ = ["RLOO", "RLOOConfig", "RLOOParameters"]


class RLOOConfig(TextAlgorithmConfig):
    """Config of RLOO under the paper's common settings."""

    parameters_class = RLOOParameters


class RLOO(TextAlgorithm, config=RLOOConfig):
    """REINFORCE with a leave-one-out baseline."""
