"""HCAPO: hindsight credit for the actions of successful rollouts."""

from __future__ import annotations

from trca.algorithms.base.text_algorithm import TextAlgorithm
from trca.algorithms.base.text_config import TextAlgorithmConfig
from trca.algorithms.hcapo.credit import HCAPOParameters

__all__ = ["HCAPO", "HCAPOConfig", "HCAPOParameters"]


class HCAPOConfig(TextAlgorithmConfig):
    """Config of HCAPO under the paper's common settings."""

    parameters_class = HCAPOParameters


class HCAPO(TextAlgorithm, config=HCAPOConfig):
    """Hindsight credit assignment policy optimization."""
