"""TRCA: transition-wise rubric credit, the algorithm of the paper."""

from trca.algorithms.trca.credit import TRCAParameters
from trca.algorithms.trca.trca import TRCA, TRCAConfig

__all__ = ["TRCA", "TRCAConfig", "TRCAParameters"]
