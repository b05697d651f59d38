"""Flat columns of the response tokens of steps.

`action_mask_of` marks the tokens that the advantage of a step weighs in the loss. `read_response`
of `trca.policies.spans` finds the tokens of one response. `make_rows` of
`trca.algorithms.learner.rows` joins mask and advantages.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trca.records import Step


def action_mask_of(steps: Sequence[Step], train_malformed: bool) -> NDArray[np.bool_]:
    """Returns the mask of the response tokens that enter the loss, bool (sum of R,).

    Args:
        steps: The steps.
        train_malformed: Whether all tokens of a response without an action enter the loss.
    """
    responses = np.array([len(s.response_ids) for s in steps], dtype=np.int64)
    action = flat([s.action_mask for s in steps], np.bool_)
    if train_malformed:
        action |= np.repeat(action_counts(action, responses) == 0, responses)
    return action


def action_counts(action: NDArray[np.bool_], responses: NDArray[np.int64]) -> NDArray[np.int64]:
    """Counts the action tokens of each response."""
    ends = np.concatenate([[0], np.cumsum(action)])[np.concatenate([[0], np.cumsum(responses)])]
    return np.asarray(np.diff(ends), dtype=np.int64)


def flat(arrays: Sequence[NDArray[Any]], dtype: type) -> NDArray[Any]:
    """Concatenates arrays; returns an empty array for no arrays."""
    return np.concatenate(arrays).astype(dtype) if arrays else np.empty(0, dtype)
