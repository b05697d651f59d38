"""Graphs of states: values that flow back along the transitions of a batch."""

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
    """Raises each state to the maximum of its value and back(value) of its next states.

    Each pass follows one transition back from the states whose value rose in the last pass:
    breadth-first search if each state rises once, and then linear in the transitions. The number of
    passes is the length of the longest path.

    Args:
        values: float64 (n,), the values of the states; -inf for a state without a value.
        before: int64 (E,), the state before each transition.
        after: int64 (E,), the state after each transition.
        back: The value of a state one transition earlier, at most the value of the state.

    Returns:
        float64 (n,); -inf for a state without a path to a value.
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
