"""Credit of whole rollouts with a list of annotations, one advantage for each turn."""

from __future__ import annotations

from collections import Counter
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

    Raises:
        ValueError: If two rollouts of a group have one id.
    """
    for (group, rollout), number in Counter(zip(groups, rollouts, strict=True)).items():
        if number > 1:
            raise ValueError(f"{number} rollouts of group {group} have the id {rollout}")
    lengths = [len(turns) for turns in annotations]
    # a token for each turn, with a gap before the next
    mask = np.arange(2 * max(lengths, default=0)) < 2 * np.array(lengths)[:, None]
    mask[:, 1::2] = False
    values = credit(groups, rollouts, annotations, mask)
    return [row[: 2 * length : 2] for row, length in zip(values, lengths, strict=True)]
