"""Leaves rollouts without advantages out of the update.

The criterion is the advantage, not the reward: a group without success has equal rewards and may
still have rubric credit. Left-out rollouts stay in the metrics, in the rollout file and in the
count of trajectories.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from trca.algorithms.settings.parameters import OnZeroAdvantage
from trca.records import Rollout

NEAR_ZERO: Final = 1e-6
"""Largest absolute advantage that counts as zero: the epsilon of the norms."""


def teaching_groups(rollouts: Sequence[Rollout]) -> set[int]:
    """The groups with a step that has an advantage.

    Args:
        rollouts: Rollouts with their advantages.
    """
    return {rollout.group for rollout in rollouts if _teaches(rollout)}


def teaching(rollouts: Sequence[Rollout], on_zero_advantage: OnZeroAdvantage) -> list[Rollout]:
    """The rollouts of the update, in their order.

    Args:
        rollouts: Rollouts with their advantages.
        on_zero_advantage: ``keep``, or the unit that is left out: ``drop_groups`` or
            ``drop_rollouts``.
    """
    if on_zero_advantage == "drop_groups":
        groups = teaching_groups(rollouts)
        return [rollout for rollout in rollouts if rollout.group in groups]
    if on_zero_advantage == "drop_rollouts":
        return [rollout for rollout in rollouts if _teaches(rollout)]
    return list(rollouts)


def _teaches(rollout: Rollout) -> bool:
    advantages = rollout.advantages
    return advantages is not None and bool((np.abs(advantages) > NEAR_ZERO).any())
