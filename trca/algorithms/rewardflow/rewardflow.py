"""RewardFlow: outcomes that flow back through the group's graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trca.algorithms.base.text_algorithm import TextAlgorithm
from trca.algorithms.base.text_config import TextAlgorithmConfig
from trca.algorithms.rules.rewardflow import RewardFlowParameters

if TYPE_CHECKING:
    from typing import Self, Unpack

    from trca.algorithms.settings.keywords import StepCreditKeywords

__all__ = ["RewardFlow", "RewardFlowConfig", "RewardFlowParameters"]


class RewardFlowConfig(TextAlgorithmConfig):
    """Config of RewardFlow under the paper's common settings."""

    parameters_class = RewardFlowParameters

    if TYPE_CHECKING:

        def training(self, **settings: Unpack[StepCreditKeywords]) -> Self:  # type: ignore[override]
            """Sets hyperparameters."""


class RewardFlow(TextAlgorithm, config=RewardFlowConfig):
    """Group credit from values that flow back through a graph of states."""
