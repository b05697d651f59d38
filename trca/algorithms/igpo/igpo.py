"""IGPO: credit for the rise of the policy's probability of the right answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trca.algorithms.base.text_algorithm import TextAlgorithm
from trca.algorithms.base.text_config import TextAlgorithmConfig
from trca.algorithms.rules.igpo import IGPOParameters

if TYPE_CHECKING:
    from typing import Self, Unpack

    from trca.algorithms.settings.keywords import IGPOKeywords

__all__ = ["IGPO", "IGPOConfig", "IGPOParameters"]


class IGPOConfig(TextAlgorithmConfig):
    """Config of IGPO under the paper's common settings."""

    parameters_class = IGPOParameters

    if TYPE_CHECKING:

        def training(self, **settings: Unpack[IGPOKeywords]) -> Self:  # type: ignore[override]
            """Sets hyperparameters."""


class IGPO(TextAlgorithm, config=IGPOConfig):
    """Information gain-based policy optimization."""
