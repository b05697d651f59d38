"""StepSearch: rewards for searches that find gold passages, and a critic."""

from __future__ import annotations

from trca.algorithms.base.text_algorithm import TextAlgorithm
from trca.algorithms.stepsearch.credit import StepSearchParameters
from trca.algorithms.turn_ppo.turn_ppo import TurnPPOConfig

__all__ = ["StepSearch", "StepSearchConfig", "StepSearchParameters"]


class StepSearchConfig(TurnPPOConfig):
    """Config of StepSearch under the paper's common settings."""

    parameters_class = StepSearchParameters


class StepSearch(TextAlgorithm, config=StepSearchConfig):
    """Step-wise proximal policy optimization of search agents."""
