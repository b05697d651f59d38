"""Batches of steps for tests, drawn by Hypothesis or written by hand."""

from dataclasses import fields, replace

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from trca.algorithms.records import StepBatch

CATEGORIES = np.array([0, 0, 1, 1, 2, 2], dtype=np.int8)


def step_batch(lengths, groups, rewards, contexts, judgments=None, parsed=None, observations=None):
    """A batch from rollouts of these lengths, each in its group; the other columns row by row."""
    rows = sum(lengths)
    last = np.zeros(rows, dtype=bool)
    last[np.cumsum(lengths, dtype=int) - 1] = True
    contexts = np.array(contexts, dtype=np.int64)
    if judgments is None:
        judgments = np.zeros((rows, len(CATEGORIES)), dtype=np.uint8)
    ones = np.ones(rows, dtype=bool)
    return StepBatch(
        group=np.repeat(np.array(groups, dtype=np.int64), lengths),
        rollout=np.repeat(np.arange(len(lengths)), lengths),
        agent=np.zeros(rows, dtype=np.int64),
        reward=np.array(rewards, dtype=np.float64),
        observation=contexts if observations is None else np.array(observations),
        context=contexts,
        next_context=contexts,
        judgments=np.array(judgments, dtype=np.uint8),
        categories=CATEGORIES,
        parsed=ones if parsed is None else np.array(parsed),
        accepted=ones,
        terminated=last,
        truncated=np.zeros(rows, dtype=bool),
    )


@st.composite
def batches(draw, outcomes=(0.0, 1.0)):
    """Up to eight rollouts in up to three scattered groups, outcomes on their last steps."""
    lengths = draw(st.lists(st.integers(1, 6), min_size=1, max_size=8))
    count, rows = len(lengths), sum(lengths)
    groups = draw(st.lists(st.sampled_from([0, 3, 70_000]), min_size=count, max_size=count))
    rewards = np.zeros(rows)
    ends = np.cumsum(lengths) - 1
    rewards[ends] = draw(st.lists(st.sampled_from(outcomes), min_size=count, max_size=count))
    contexts = draw(st.lists(st.integers(0, 3), min_size=rows, max_size=rows))
    observations = draw(st.lists(st.integers(0, 3), min_size=rows, max_size=rows))
    judgments = draw(arrays(np.uint8, (rows, len(CATEGORIES)), elements=st.integers(0, 1)))
    parsed = draw(arrays(np.bool_, rows))
    return step_batch(lengths, groups, rewards, contexts, judgments, parsed, observations)


def take_rollouts(batch, order):
    """The batch with its rollouts in another order, and the rows it took."""
    rows = np.concatenate([np.flatnonzero(batch.rollout == r) for r in order])
    columns = (f.name for f in fields(batch) if f.init and f.name != "categories")
    return replace(batch, **{name: getattr(batch, name)[rows] for name in columns}), rows
