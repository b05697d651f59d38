"""TurnPPO: PPO with a critic, a turn of the agent as the step.

RLlib's PPO has the name ``PPO`` in Ray Tune's registry, so this algorithm has the name ``TurnPPO``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trca.algorithms.base.text_algorithm import TextAlgorithm
from trca.algorithms.base.text_config import TextAlgorithmConfig
from trca.algorithms.rules.turn_ppo import TurnPPOParameters

if TYPE_CHECKING:
    from typing import Self, Unpack

    from trca.algorithms.settings.keywords import TurnPPOKeywords

__all__ = ["TurnPPO", "TurnPPOConfig", "TurnPPOParameters"]


class TurnPPOConfig(TextAlgorithmConfig):
    """Config of TurnPPO under the paper's common settings."""

    parameters_class = TurnPPOParameters

    if TYPE_CHECKING:

        def training(self, **settings: Unpack[TurnPPOKeywords]) -> Self:  # type: ignore[override]
            """Sets hyperparameters."""

    def validate(self) -> None:
        """Checks every setting.

        Raises:
            ValueError: Names the wrong setting and the allowed values.
        """
        if self.gae == "bi_level" and self.ratio_level != "token":
            raise ValueError(
                f"gae is 'bi_level' and ratio_level is {self.ratio_level!r}: each token has an"
                " advantage, so set ratio_level to token"
            )
        super().validate()


class TurnPPO(TextAlgorithm, config=TurnPPOConfig):
    """Proximal policy optimization over turns, with a critic."""
