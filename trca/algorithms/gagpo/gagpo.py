"""GAGPO: generalized advantages over values of groups of states."""

from __future__ import annotations

from trca.algorithms.base.text_algorithm import TextAlgorithm
from trca.algorithms.base.text_config import TextAlgorithmConfig
from trca.algorithms.gagpo.credit import GAGPOParameters

__all__ = ["GAGPO", "GAGPOConfig", "GAGPOParameters"]


class GAGPOConfig(TextAlgorithmConfig):
    """Config of GAGPO under the paper's common settings."""

    parameters_class = GAGPOParameters


class GAGPO(TextAlgorithm, config=GAGPOConfig):
    """Generalized advantage grouped policy optimization."""
