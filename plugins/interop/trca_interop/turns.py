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
    rows = [annotation for turns in annotations for annotation in turns]
    if not rows:
        return [np.empty(0) for _ in annotations]
    lengths = [len(turns) for turns in annotations]
    number = np.repeat(np.arange(len(annotations)), lengths).tolist()
    of_rows = credit(
        [groups[k] for k in number],
        [rollouts[k] for k in number],
        rows,
        np.ones((len(rows), 1), bool),
    )[:, 0]
    return np.split(of_rows, np.cumsum(lengths)[:-1])
