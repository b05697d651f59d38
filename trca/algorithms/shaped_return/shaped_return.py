"""ShapedReturn: the outcome plus the rubric rewards against the group, without contexts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trca.algorithms.base.text_algorithm import TextAlgorithm
from trca.algorithms.base.text_config import TextAlgorithmConfig
from trca.algorithms.rules.shaped_return import ShapedReturnParameters

if TYPE_CHECKING:
    from typing import Self, Unpack

    from trca.algorithms.settings.keywords import ShapedReturnKeywords

__all__ = ["ShapedReturn", "ShapedReturnConfig", "ShapedReturnParameters"]


class ShapedReturnConfig(TextAlgorithmConfig):
    """Config of ShapedReturn under the paper's common settings."""

    parameters_class = ShapedReturnParameters

    if TYPE_CHECKING:

        def training(self, **settings: Unpack[ShapedReturnKeywords]) -> Self:  # type: ignore[override]
            """Sets hyperparameters."""


class ShapedReturn(TextAlgorithm, config=ShapedReturnConfig):
    """Group-relative optimization of the outcome plus the rubric rewards."""
