"""Graphs of states: what lies ahead of each of them, by the transitions of a whole batch."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray


def spread_back(
    values: NDArray[np.float64],
    before: NDArray[np.int64],
    after: NDArray[np.int64],
    back: Callable[[NDArray[np.float64]], NDArray[np.float64]],
) -> NDArray[np.float64]:
    """Raises each state to the best of its value and back(value) of where its transitions lead.

    Goes back from the states that have a value, a transition at a time, and looks only at those
    that rose: breadth-first search where a state rises once. Linear in the transitions then; the
    number of passes is the length of the longest way.

    Args:
        values: float64 (n,), the states' own values; -inf for none.
        before: int64 (E,), the state each transition leaves.
        after: int64 (E,), the state it leads to.
        back: What a state is worth one transition earlier; never more than the state itself.

    Returns:
        float64 (n,); -inf for a state that leads to no value.
    """
    best = values.copy()
    order = np.argsort(after, kind="stable")
    sources = before[order]
    count = np.bincount(after, minlength=len(values))
    start = np.cumsum(count) - count
    risen = np.flatnonzero(best > -np.inf)
    while len(risen):
        entering = count[risen]
        offset = np.arange(entering.sum()) - np.repeat(np.cumsum(entering) - entering, entering)
        states = sources[np.repeat(start[risen], entering) + offset]
        offered = np.repeat(back(best[risen]), entering)
        better = offered > best[states]
        states, offered = states[better], offered[better]
        np.maximum.at(best, states, offered)
        risen = np.unique(states)
    return best
