"""GraphGPO: credit by the distance to success in the group's graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trca.algorithms.base.text_algorithm import TextAlgorithm
from trca.algorithms.base.text_config import TextAlgorithmConfig
from trca.algorithms.rules.graphgpo import GraphGPOParameters

if TYPE_CHECKING:
    from typing import Self, Unpack

    from trca.algorithms.settings.keywords import GraphGPOKeywords

__all__ = ["GraphGPO", "GraphGPOConfig", "GraphGPOParameters"]


class GraphGPOConfig(TextAlgorithmConfig):
    """Config of GraphGPO under the paper's common settings."""

    parameters_class = GraphGPOParameters

    if TYPE_CHECKING:

        def training(self, **settings: Unpack[GraphGPOKeywords]) -> Self:  # type: ignore[override]
            """Sets hyperparameters."""


class GraphGPO(TextAlgorithm, config=GraphGPOConfig):
    """Graph-based group policy optimization."""
