"""G2PO: credit by the values of states in the group's graph."""

from __future__ import annotations

from trca.algorithms.base.text_algorithm import TextAlgorithm
from trca.algorithms.base.text_config import TextAlgorithmConfig
from trca.algorithms.g2po.credit import G2POParameters

__all__ = ["G2PO", "G2POConfig", "G2POParameters"]


class G2POConfig(TextAlgorithmConfig):
    """Config of G2PO under the paper's common settings."""

    parameters_class = G2POParameters


class G2PO(TextAlgorithm, config=G2POConfig):
    """Group-graph policy optimization."""
