"""HGPO: credit against steps with ever more history in common."""

from __future__ import annotations

from trca.algorithms.base.text_algorithm import TextAlgorithm
from trca.algorithms.base.text_config import TextAlgorithmConfig
from trca.algorithms.hgpo.credit import HGPOParameters

__all__ = ["HGPO", "HGPOConfig", "HGPOParameters"]


class HGPOConfig(TextAlgorithmConfig):
    """Config of HGPO under the paper's common settings."""

    parameters_class = HGPOParameters


class HGPO(TextAlgorithm, config=HGPOConfig):
    """Hierarchy-of-groups policy optimization."""
