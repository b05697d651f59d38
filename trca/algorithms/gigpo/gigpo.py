"""GiGPO: outcome credit plus credit against steps from the same state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trca.algorithms.base.text_algorithm import TextAlgorithm
from trca.algorithms.base.text_config import TextAlgorithmConfig
from trca.algorithms.rules.gigpo import GiGPOParameters

if TYPE_CHECKING:
    from typing import Self, Unpack

    from trca.algorithms.settings.keywords import GiGPOKeywords

__all__ = ["GiGPO", "GiGPOConfig", "GiGPOParameters"]


class GiGPOConfig(TextAlgorithmConfig):
    """Config of GiGPO under the paper's common settings."""

    parameters_class = GiGPOParameters

    if TYPE_CHECKING:

        def training(self, **settings: Unpack[GiGPOKeywords]) -> Self:  # type: ignore[override]
            """Sets hyperparameters."""


class GiGPO(TextAlgorithm, config=GiGPOConfig):
    """Group-in-group policy optimization."""
