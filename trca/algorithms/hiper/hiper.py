"""HiPER: PPO over a plan of subgoals and the actions that follow them, with a critic of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trca.algorithms.base.text_algorithm import TextAlgorithm
from trca.algorithms.base.text_config import TextAlgorithmConfig
from trca.algorithms.credit.inputs.plans import lacks_plan
from trca.algorithms.rules.hiper import HiPERParameters

if TYPE_CHECKING:
    from typing import Self, Unpack

    from trca.algorithms.settings.keywords import HiPERKeywords

__all__ = ["HiPER", "HiPERConfig", "HiPERParameters"]


class HiPERConfig(TextAlgorithmConfig):
    """Config of HiPER under the paper's common settings; responses have a plan."""

    parameters_class = HiPERParameters
    value_heads = 3

    if TYPE_CHECKING:

        def training(self, **settings: Unpack[HiPERKeywords]) -> Self:  # type: ignore[override]
            """Sets hyperparameters."""

    def validate(self) -> None:
        """Checks every setting.

        Raises:
            ValueError: Names the wrong setting and the allowed values.
        """
        if lack := lacks_plan(self.response_format):
            raise ValueError(f"HiPER credits switches, subgoals and actions, and {lack}")
        if self.ratio_level != "token":
            raise ValueError(
                f"HiPER gives each token an advantage of its own and ratio_level is"
                f" {self.ratio_level!r}: set ratio_level to token"
            )
        super().validate()


class HiPER(TextAlgorithm, config=HiPERConfig):
    """Hierarchical plan-execute RL: one advantage for switches, subgoals and actions each."""
