"""TRCA: transition-wise rubric credit, the algorithm of the paper."""

from trca.algorithms.trca import credit
from trca.algorithms.trca.trca import TRCA, TRCAConfig, TRCAParameters

__all__ = ["TRCA", "TRCAConfig", "TRCAParameters", "credit"]
