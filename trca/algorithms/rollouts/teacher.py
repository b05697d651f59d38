"""`Teacher`: gives responses that are played or learned in place of the policy's responses."""

from __future__ import annotations

from typing import Protocol

from trca.algorithms.rollouts.batch import GroupRequest
from trca.algorithms.rollouts.recording import View


class Teacher(Protocol):
    """Gives the response of a step in a group with a demonstration."""

    @property
    def acts(self) -> bool:
        """Whether the response is played.

        Otherwise the policy acts, and the response is the label of the step.
        """
        ...

    def action(self, view: View) -> str | None:
        """The action that the response of a step must contain; None if any response is right.

        Args:
            view: The agent's view before the step.
        """
        ...

    def response(self, request: GroupRequest, view: View, subgoal: str) -> str:
        """The response of a step.

        Args:
            request: The group of the episode.
            view: The agent's view before the step.
            subgoal: The agent's subgoal; blank without plans.
        """
        ...
