"""HCAPO: hindsight credit for the actions of successful rollouts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trca.algorithms.base.text_algorithm import TextAlgorithm
from trca.algorithms.base.text_config import TextAlgorithmConfig
from trca.algorithms.rules.hcapo import HCAPOParameters

if TYPE_CHECKING:
    from typing import Self, Unpack

    from trca.algorithms.settings.keywords import HCAPOKeywords

__all__ = ["HCAPO", "HCAPOConfig", "HCAPOParameters"]


class HCAPOConfig(TextAlgorithmConfig):
    """Config of HCAPO under the paper's common settings."""

    parameters_class = HCAPOParameters

    if TYPE_CHECKING:

        def training(self, **settings: Unpack[HCAPOKeywords]) -> Self:  # type: ignore[override]
            """Sets hyperparameters."""


class HCAPO(TextAlgorithm, config=HCAPOConfig):
    """Hindsight credit assignment policy optimization."""
