"""GAGPO: generalized advantages over values of groups of states."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trca.algorithms.base.text_algorithm import TextAlgorithm
from trca.algorithms.base.text_config import TextAlgorithmConfig
from trca.algorithms.rules.gagpo import GAGPOParameters

if TYPE_CHECKING:
    from typing import Self, Unpack

    from trca.algorithms.settings.keywords import GAGPOKeywords

__all__ = ["GAGPO", "GAGPOConfig", "GAGPOParameters"]


class GAGPOConfig(TextAlgorithmConfig):
    """Config of GAGPO under the paper's common settings."""

    parameters_class = GAGPOParameters

    if TYPE_CHECKING:

        def training(self, **settings: Unpack[GAGPOKeywords]) -> Self:  # type: ignore[override]
            """Sets hyperparameters."""


class GAGPO(TextAlgorithm, config=GAGPOConfig):
    """Generalized advantage grouped policy optimization."""
