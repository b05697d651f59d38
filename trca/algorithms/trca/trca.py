"""TRCA: transition-wise rubric credit, the algorithm of the paper."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trca.algorithms.base.text_algorithm import TextAlgorithm
from trca.algorithms.base.text_config import TextAlgorithmConfig
from trca.algorithms.rules.trca import TRCAParameters

if TYPE_CHECKING:
    from typing import Self, Unpack

    from trca.algorithms.settings.keywords import TRCAKeywords

__all__ = ["TRCA", "TRCAConfig", "TRCAParameters"]


class TRCAConfig(TextAlgorithmConfig):
    """Config of TRCA; the defaults are the paper's."""

    parameters_class = TRCAParameters

    if TYPE_CHECKING:

        def training(self, **settings: Unpack[TRCAKeywords]) -> Self:  # type: ignore[override]
            """Sets hyperparameters."""


class TRCA(TextAlgorithm, config=TRCAConfig):
    """Transition-wise rubric credit assignment."""
