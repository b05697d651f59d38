"""Credit of whole rollouts with a list of annotations, one advantage for each turn."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trca_interop.credit import Credit


def turn_advantages(
    credit: Credit,
    groups: Sequence[Hashable],
    rollouts: Sequence[Hashable],
    annotations: Sequence[Sequence[Any]],
) -> list[NDArray[np.float64]]:
    """The advantages of the turns of rollouts.

    Args:
        credit: The rule.
        groups: N ids of the rollout groups.
        rollouts: N ids of the rollouts, unique within their group.
        annotations: N lists of annotations of `trca_interop.credit.annotate`, one for each turn.

    Returns:
        N arrays, float64 (T,) each.
    """
    rows = [
        (group, rollout, annotation)
        for group, rollout, turns in zip(groups, rollouts, annotations, strict=True)
        for annotation in turns
    ]
    if not rows:
        return [np.empty(0) for _ in annotations]
    of_group, of_rollout, of_turn = zip(*rows, strict=True)
    of_rows = credit(of_group, of_rollout, of_turn, np.ones((len(rows), 1), bool))[:, 0]
    ends = np.cumsum([len(turns) for turns in annotations])
    return np.split(of_rows, ends[:-1])
