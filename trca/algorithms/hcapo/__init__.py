"""HCAPO: hindsight credit for the actions of successful rollouts."""

from __future__ import annotations

from trca.algorithms.hcapo.credit import HCAPOParameters
from trca.algorithms.text_algorithm import TextAlgorithm
from trca.algorithms.text_config import TextAlgorithmConfig

__all__ = ["HCAPO", "HCAPOConfig", "HCAPOParameters"]


class HCAPOConfig(TextAlgorithmConfig):
    """Config of HCAPO under the paper's common settings."""

    parameters_class = HCAPOParameters


class HCAPO(TextAlgorithm, config=HCAPOConfig):
    """Hindsight credit assignment policy optimization."""
