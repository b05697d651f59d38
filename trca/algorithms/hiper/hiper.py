"""HiPER: PPO over a plan of subgoals and the actions that follow them, with a critic of each."""

from __future__ import annotations

from trca.algorithms.base.text_algorithm import TextAlgorithm
from trca.algorithms.base.text_config import TextAlgorithmConfig
from trca.algorithms.credit.inputs.plans import lacks_plan
from trca.algorithms.hiper.credit import HiPERParameters

__all__ = ["HiPER", "HiPERConfig", "HiPERParameters"]


class HiPERConfig(TextAlgorithmConfig):
    """Config of HiPER under the paper's common settings; responses have a plan."""

    parameters_class = HiPERParameters
    value_heads = 3

    def validate(self) -> None:
        """Checks every setting.

        Raises:
            ValueError: Names what is wrong and what is allowed.
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
