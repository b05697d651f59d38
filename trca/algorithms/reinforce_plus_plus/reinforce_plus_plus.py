"""REINFORCE++: returns normalised over the whole batch."""

from __future__ import annotations

from trca.algorithms.base.text_algorithm import TextAlgorithm
from trca.algorithms.base.text_config import TextAlgorithmConfig
from trca.algorithms.reinforce_plus_plus.credit import ReinforcePlusPlusParameters

__all__ = ["ReinforcePlusPlus", "ReinforcePlusPlusConfig", "ReinforcePlusPlusParameters"]


class ReinforcePlusPlusConfig(TextAlgorithmConfig):
    """Config of REINFORCE++ under the paper's common settings."""

    parameters_class = ReinforcePlusPlusParameters


class ReinforcePlusPlus(TextAlgorithm, config=ReinforcePlusPlusConfig):
    """REINFORCE with normalisation over the whole batch."""
