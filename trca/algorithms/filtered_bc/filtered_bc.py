"""Filtered behaviour cloning: imitate the policy's own successful rollouts."""

from __future__ import annotations

from trca.algorithms.base.text_algorithm import TextAlgorithm
from trca.algorithms.base.text_config import TextAlgorithmConfig
from trca.algorithms.rules.filtered_bc import FilteredBCParameters

__all__ = ["FilteredBC", "FilteredBCConfig", "FilteredBCParameters"]


class FilteredBCConfig(TextAlgorithmConfig):
    """Config of filtered behaviour cloning under the paper's common settings."""

    parameters_class = FilteredBCParameters


class FilteredBC(TextAlgorithm, config=FilteredBCConfig):
    """Filtered behaviour cloning."""
