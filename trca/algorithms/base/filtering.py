"""Leaves rollouts out of the update that have nothing to teach: those without advantages.

Advantages decide, and never rewards: a group without success has equal rewards, and rubric credit
all the same. What is left out of the update stays in the metrics, in the rollout file and in the
count of trajectories.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from trca.algorithms.settings.parameters import OnZeroAdvantage
from trca.records import Rollout

NEAR_ZERO: Final = 1e-6
"""Advantages up to this size count as none: of the size of epsilon in the norms."""


def teaching_groups(rollouts: Sequence[Rollout]) -> set[int]:
    """The groups that have a step with an advantage.

    Args:
        rollouts: Rollouts with their advantages.
    """
    return {rollout.group for rollout in rollouts if _teaches(rollout)}


def teaching(rollouts: Sequence[Rollout], on_zero_advantage: OnZeroAdvantage) -> list[Rollout]:
    """The rollouts that are learned from, in their order.

    Args:
        rollouts: Rollouts with their advantages.
        on_zero_advantage: Which are left out.
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
