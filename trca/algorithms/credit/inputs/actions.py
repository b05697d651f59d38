"""The read ``actions``: the texts of the actions."""

from __future__ import annotations

from typing import Final

from trca.algorithms.credit.reads import Read, Sources
from trca.records import StepBatch


class ActionsRead(Read):
    """The action of each step."""

    def __call__(self, sources: Sources, batch: StepBatch) -> list[str]:
        """Returns S texts."""
        return [step.action for rollout in sources.rollouts for step in rollout.steps]


ACTIONS: Final = ActionsRead()
