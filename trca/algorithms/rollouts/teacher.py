"""`Teacher`: gives responses that are played or learned in place of the policy's responses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from trca.algorithms.rollouts.batch import GroupRequest


class Teacher(Protocol):
    """Gives the response of a step in a group with a demonstration."""

    @property
    def acts(self) -> bool:
        """Whether the response is played.

        Otherwise the policy acts, and the response is the label of the step.
        """
        ...

    def response(
        self,
        request: GroupRequest,
        turn: int,
        observation: str,
        info: Mapping[str, Any],
        subgoal: str,
    ) -> str:
        """The response of a step.

        Args:
            request: The group of the episode.
            turn: Number of the step in the episode.
            observation: The observation before the step.
            info: The info dict before the step.
            subgoal: The agent's subgoal; blank without plans.
        """
        ...
