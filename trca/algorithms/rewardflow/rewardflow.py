"""RewardFlow: outcomes that flow back through the group's graph."""

from __future__ import annotations

from trca.algorithms.base.text_algorithm import TextAlgorithm
from trca.algorithms.base.text_config import TextAlgorithmConfig
from trca.algorithms.rewardflow.credit import RewardFlowParameters

__all__ = ["RewardFlow", "RewardFlowConfig", "RewardFlowParameters"]


class RewardFlowConfig(TextAlgorithmConfig):
    """Config of RewardFlow under the paper's common settings."""

    parameters_class = RewardFlowParameters


class RewardFlow(TextAlgorithm, config=RewardFlowConfig):
    """Group credit from values that flow back through a graph of states."""
