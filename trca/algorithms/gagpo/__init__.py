"""GAGPO: generalized advantages over values of groups of states."""

from __future__ import annotations

from trca.algorithms.gagpo.credit import GAGPOParameters
from trca.algorithms.text_algorithm import TextAlgorithm
from trca.algorithms.text_config import TextAlgorithmConfig

__all__ = ["GAGPO", "GAGPOConfig", "GAGPOParameters"]


class GAGPOConfig(TextAlgorithmConfig):
    """Config of GAGPO under the paper's common settings."""

    parameters_class = GAGPOParameters


class GAGPO(TextAlgorithm, config=GAGPOConfig):
    """Generalized advantage grouped policy optimization."""
