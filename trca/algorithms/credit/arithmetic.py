"""Arithmetic of credit rules: discounted returns by rollout, and normalisation by group.

Time is linear in the number of steps S, except for the factor log T of the returns (T steps in the
longest rollout) and a sort of codes with wide gaps.
"""

from __future__ import annotations

import numpy as np

from trca.records import Bools, Floats, Ints
from trca.rubric.rewards import check_share

_ROUNDING = 1e-12


def discounted_returns(values: Floats, rollout: Ints, gamma: float) -> Floats:
    """sum_{k >= t} gamma^(k - t) values_k within each rollout, by doubling the horizon.

    The sum over the next 2h steps is the sum over h steps, plus gamma^h times the sum h steps
    later, so log2 T passes over the columns are enough for any lengths.

    Args:
        values: float64 (S,).
        rollout: int64 (S,), the rollout of each row, or a part of a rollout; its rows are
            contiguous and in time order.
        gamma: The discount, in [0, 1].

    Returns:
        float64 (S,).

    Raises:
        ValueError: For a discount outside [0, 1].
    """
    check_share("gamma", gamma)
    returns = np.array(values, dtype=np.float64)
    _, lengths = rollout_spans(rollout)
    ends = np.repeat(np.cumsum(lengths), lengths)
    left = ends - np.arange(len(returns))
    horizon, weight = 1, float(gamma)
    while horizon < lengths.max(initial=0):
        rows = np.flatnonzero(left > horizon)
        returns[rows] += weight * returns[rows + horizon]
        horizon, weight = 2 * horizon, weight * weight
    return returns


def rollout_spans(rollout: Ints) -> tuple[Ints, Ints]:
    """First row and number of rows of each rollout, in the order of the rows.

    Args:
        rollout: int64 (S,), contiguous.

    Returns:
        int64 (n,) and int64 (n,), for n rollouts.
    """
    new = np.ones(len(rollout), dtype=bool)
    new[1:] = rollout[1:] != rollout[:-1]
    starts = np.flatnonzero(new)
    return starts, np.diff(starts, append=len(rollout))


def outcomes(reward: Floats, rollout: Ints) -> tuple[Floats, Ints, Ints]:
    """R(tau_i), the sum of a rollout's rewards, and the rows of the rollouts.

    Args:
        reward: float64 (S,).
        rollout: int64 (S,), contiguous.

    Returns:
        float64 (n,) for n rollouts, and their `rollout_spans`.
    """
    starts, lengths = rollout_spans(rollout)
    return np.add.reduceat(reward, starts), starts, lengths


def segment_numbers(ends: Bools, rollout: Ints) -> Ints:
    """Number of segments of the rollout that end before each step.

    Args:
        ends: bool (S,), whether a segment ends with the step.
        rollout: int64 (S,), contiguous.

    Returns:
        int64 (S,), from 0 in each rollout.
    """
    starts, lengths = rollout_spans(rollout)
    before: Ints = np.cumsum(ends) - ends
    return before - np.repeat(before[starts], lengths)


def next_values(values: Floats, rollout: Ints, at_end: Floats | float) -> Floats:
    """The value of the step after each, within its rollout.

    Args:
        values: float64 (S,).
        rollout: int64 (S,), contiguous.
        at_end: float64 (n,), the value after the last step of each rollout; or a number for all.

    Returns:
        float64 (S,).
    """
    starts, lengths = rollout_spans(rollout)
    following = np.roll(values, -1)
    following[starts + lengths - 1] = at_end
    return following


def joint_codes(*keys: Ints) -> Ints:
    """Codes from 0: two rows have the same code exactly if all keys are equal.

    Args:
        keys: int64 (S,) each.

    Returns:
        int64 (S,), without gaps.
    """
    codes = _dense(keys[0])
    for key in keys[1:]:
        key = _dense(key)
        codes = _dense(codes * (key.max(initial=0) + 1) + key)
    return codes


def normalize(
    values: Floats, codes: Ints, *, ddof: int, epsilon: float, divide: bool = True
) -> Floats:
    """Norm of each value within its group: (z - mean) / (std + epsilon), 0 for equal values.

    Eq. app_normalization. The function avoids two errors of rounding. In floating point the mean of
    equal numbers can differ from the numbers: the function first subtracts the group's smallest
    value, which makes equal numbers exact zeros. Returns that are equal on paper can differ in the
    last bits, by the order of summation: a group with all values within 1e-12 counts as zero
    variance, since its advantages would stay below 1e-6.

    Args:
        values: float64 (S,).
        codes: int64 (S,), the group of each value, from 0 without wide gaps.
        ddof: Degrees of freedom, subtracted from the number of values in the variance (0 or 1).
        epsilon: Added to the standard deviation.
        divide: Divide by the standard deviation; False returns z - mean.

    Returns:
        float64 (S,); 0 for a group of one.
    """
    count = np.bincount(codes)
    lowest = np.full(len(count), np.inf)
    np.minimum.at(lowest, codes, values)
    above = values - lowest[codes]
    spread = np.zeros(len(count))
    np.maximum.at(spread, codes, above)
    above[spread[codes] <= _ROUNDING] = 0.0
    mean = np.bincount(codes, above, len(count)) / np.maximum(count, 1)
    centred: Floats = above - mean[codes]
    if not divide:
        return centred
    squares = np.bincount(codes, np.square(centred), len(count))
    deviation = np.sqrt(squares / np.maximum(count - ddof, 1)) + epsilon
    deviation[deviation == 0.0] = 1.0
    return np.asarray(centred / deviation[codes], dtype=np.float64)


def _dense(key: Ints) -> Ints:
    if len(key) == 0:
        return key
    lowest = int(key.min())
    width = int(key.max()) - lowest + 1
    if width > 4 * len(key) + 1024:
        return np.unique(key, return_inverse=True)[1].astype(np.int64)
    shifted = key - lowest
    present = np.zeros(width, dtype=bool)
    present[shifted] = True
    return (np.cumsum(present) - 1)[shifted]
