"""GraphGPO: credit by the distance to success in the group's graph."""

from __future__ import annotations

from trca.algorithms.base.text_algorithm import TextAlgorithm
from trca.algorithms.base.text_config import TextAlgorithmConfig
from trca.algorithms.graphgpo.credit import GraphGPOParameters

__all__ = ["GraphGPO", "GraphGPOConfig", "GraphGPOParameters"]


class GraphGPOConfig(TextAlgorithmConfig):
    """Config of GraphGPO under the paper's common settings."""

    parameters_class = GraphGPOParameters


class GraphGPO(TextAlgorithm, config=GraphGPOConfig):
    """Graph-based group policy optimization."""
