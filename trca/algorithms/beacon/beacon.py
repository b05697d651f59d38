"""BEACON: outcome credit plus credit inside the segments between milestones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trca.algorithms.base.text_algorithm import TextAlgorithm
from trca.algorithms.base.text_config import TextAlgorithmConfig
from trca.algorithms.rules.beacon import BEACONParameters

if TYPE_CHECKING:
    from typing import Self, Unpack

    from trca.algorithms.settings.keywords import BEACONKeywords

__all__ = ["BEACON", "BEACONConfig", "BEACONParameters"]


class BEACONConfig(TextAlgorithmConfig):
    """Config of BEACON under the paper's common settings."""

    parameters_class = BEACONParameters

    def validate(self) -> None:
        """Checks every setting.

        Raises:
            ValueError: If ``milestones: environment`` meets a team: a message has no milestone.
        """
        super().validate()
        if self.roles and self.milestones == "environment":
            raise ValueError(
                "milestones is 'environment', and a message of a team completes none: set"
                " milestones to execution, or leave env_config.team out"
            )

    if TYPE_CHECKING:

        def training(self, **settings: Unpack[BEACONKeywords]) -> Self:  # type: ignore[override]
            """Sets hyperparameters."""


class BEACON(TextAlgorithm, config=BEACONConfig):
    """Milestone-guided policy optimization."""
