"""HGPO: credit against steps with ever more history in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trca.algorithms.base.text_algorithm import TextAlgorithm
from trca.algorithms.base.text_config import TextAlgorithmConfig
from trca.algorithms.rules.hgpo import HGPOParameters

if TYPE_CHECKING:
    from typing import Self, Unpack

    from trca.algorithms.settings.keywords import HGPOKeywords

__all__ = ["HGPO", "HGPOConfig", "HGPOParameters"]


class HGPOConfig(TextAlgorithmConfig):
    """Config of HGPO under the paper's common settings."""

    parameters_class = HGPOParameters

    if TYPE_CHECKING:

        def training(self, **settings: Unpack[HGPOKeywords]) -> Self:  # type: ignore[override]
            """Sets hyperparameters."""


class HGPO(TextAlgorithm, config=HGPOConfig):
    """Hierarchy-of-groups policy optimization."""
