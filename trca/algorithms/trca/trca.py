"""TRCA: outcome credit plus transition-wise rubric credit (`trca.algorithms.trca.credit`)."""

from __future__ import annotations

from trca.algorithms.text_algorithm import TextAlgorithm
from trca.algorithms.text_config import TextAlgorithmConfig
from trca.algorithms.trca.credit import TRCAParameters


class TRCAConfig(TextAlgorithmConfig):
    """Config of TRCA; the defaults are the paper's."""

    parameters_class = TRCAParameters

    def __init__(self, algo_class: type | None = None) -> None:
        super().__init__(algo_class=algo_class or TRCA)


class TRCA(TextAlgorithm):
    """Transition-wise rubric credit assignment."""

    needs_rubric = True

    @classmethod
    def get_default_config(cls) -> TRCAConfig:
        """The paper's settings."""
        return TRCAConfig()
