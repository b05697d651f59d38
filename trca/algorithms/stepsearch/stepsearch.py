"""StepSearch: rewards for searches that find gold passages, and a critic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trca.algorithms.base.text_algorithm import TextAlgorithm
from trca.algorithms.rules.stepsearch import StepSearchParameters
from trca.algorithms.turn_ppo.turn_ppo import TurnPPOConfig

if TYPE_CHECKING:
    from typing import Self, Unpack

    from trca.algorithms.settings.keywords import StepSearchKeywords

__all__ = ["StepSearch", "StepSearchConfig", "StepSearchParameters"]


class StepSearchConfig(TurnPPOConfig):
    """Config of StepSearch under the paper's common settings."""

    parameters_class = StepSearchParameters

    if TYPE_CHECKING:

        def training(self, **settings: Unpack[StepSearchKeywords]) -> Self:  # type: ignore[override]
            """Sets hyperparameters."""


class StepSearch(TextAlgorithm, config=StepSearchConfig):
    """Step-wise proximal policy optimization of search agents."""
