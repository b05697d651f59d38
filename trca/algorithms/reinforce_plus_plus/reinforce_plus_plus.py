"""REINFORCE++: returns normalised over the batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trca.algorithms.base.text_algorithm import TextAlgorithm
from trca.algorithms.base.text_config import TextAlgorithmConfig
from trca.algorithms.rules.reinforce_plus_plus import ReinforcePlusPlusParameters

if TYPE_CHECKING:
    from typing import Self, Unpack

    from trca.algorithms.settings.keywords import ReinforcePlusPlusKeywords

__all__ = ["ReinforcePlusPlus", "ReinforcePlusPlusConfig", "ReinforcePlusPlusParameters"]


class ReinforcePlusPlusConfig(TextAlgorithmConfig):
    """Config of REINFORCE++ under the paper's common settings."""

    parameters_class = ReinforcePlusPlusParameters

    if TYPE_CHECKING:

        def training(self, **settings: Unpack[ReinforcePlusPlusKeywords]) -> Self:  # type: ignore[override]
            """Sets hyperparameters."""


class ReinforcePlusPlus(TextAlgorithm, config=ReinforcePlusPlusConfig):
    """REINFORCE with normalisation over the batch."""
