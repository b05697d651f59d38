"""TRCA: transition-wise rubric credit, the algorithm of the paper."""

from __future__ import annotations

from trca.algorithms.base.text_algorithm import TextAlgorithm
from trca.algorithms.base.text_config import TextAlgorithmConfig
from trca.algorithms.trca.credit import TRCAParameters

__all__ = ["TRCA", "TRCAConfig", "TRCAParameters"]


class TRCAConfig(TextAlgorithmConfig):
    """Config of TRCA; the defaults are the paper's."""

    parameters_class = TRCAParameters


class TRCA(TextAlgorithm, config=TRCAConfig):
    """Transition-wise rubric credit assignment."""
