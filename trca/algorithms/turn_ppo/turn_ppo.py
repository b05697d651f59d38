"""TurnPPO: PPO with a critic, a turn of the agent as the step.

RLlib's own PPO has the name ``PPO`` in Ray Tune's registry; this one is ``TurnPPO`` so that each
trains what it says.
"""

from __future__ import annotations

from trca.algorithms.base.text_algorithm import TextAlgorithm
from trca.algorithms.base.text_config import TextAlgorithmConfig
from trca.algorithms.turn_ppo.credit import TurnPPOParameters

__all__ = ["TurnPPO", "TurnPPOConfig", "TurnPPOParameters"]


class TurnPPOConfig(TextAlgorithmConfig):
    """Config of TurnPPO under the paper's common settings."""

    parameters_class = TurnPPOParameters

    def validate(self) -> None:
        """Checks every setting.

        Raises:
            ValueError: Names what is wrong and what is allowed.
        """
        if self.gae == "bi_level" and self.ratio_level != "token":
            raise ValueError(
                f"gae is 'bi_level' and ratio_level is {self.ratio_level!r}: each token has an"
                " advantage of its own, so set ratio_level to token"
            )
        super().validate()


class TurnPPO(TextAlgorithm, config=TurnPPOConfig):
    """Proximal policy optimization over turns, with a critic."""
