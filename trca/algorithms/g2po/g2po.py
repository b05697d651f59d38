"""G2PO: credit by the values of states in the group's graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trca.algorithms.base.text_algorithm import TextAlgorithm
from trca.algorithms.base.text_config import TextAlgorithmConfig
from trca.algorithms.rules.g2po import G2POParameters

if TYPE_CHECKING:
    from typing import Self, Unpack

    from trca.algorithms.settings.keywords import StepCreditKeywords

__all__ = ["G2PO", "G2POConfig", "G2POParameters"]


class G2POConfig(TextAlgorithmConfig):
    """Config of G2PO under the paper's common settings."""

    parameters_class = G2POParameters

    if TYPE_CHECKING:

        def training(self, **settings: Unpack[StepCreditKeywords]) -> Self:  # type: ignore[override]
            """Sets hyperparameters."""


class G2PO(TextAlgorithm, config=G2POConfig):
    """Group-graph policy optimization."""
