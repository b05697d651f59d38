"""Values of a critic for tests: drawn by Hypothesis or written by hand."""

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from trca.algorithms.credit.values import Values


def critic_values(batch, tokens, actions=None, beyond=None, heads=None):
    """The values of a critic.

    Args:
        batch: S steps.
        tokens: Values of the text before each response token, a list for each step; a place has one
            number or one for each head.
        actions: Which of them are of the action, a list for each step; by default all.
        beyond: Value of the state after the last step, for each rollout; by default 0.
        heads: Values of a place; by default as many as a place has.
    """
    lengths = np.array([len(of_step) for of_step in tokens], dtype=np.int64)
    places = [value for of_step in tokens for value in of_step]
    heads = heads or max(map(np.size, places), default=1)
    flat = np.array(places, dtype=np.float64).reshape(-1, heads)
    silent = [0.25] * heads
    first = [np.reshape(of_step[0] if len(of_step) else silent, heads) for of_step in tokens]
    state = np.array(first, np.float64).reshape(-1, heads)
    last = batch.terminated | batch.truncated
    after = np.roll(state, -1, axis=0)
    after[last] = 0.0
    if beyond is not None:
        cut = batch.truncated[last]
        after[batch.truncated] = np.array(beyond, np.float64).reshape(len(cut), heads)[cut]
    mask = np.ones(len(flat), bool) if actions is None else np.concatenate([*actions, []])
    return Values(state, after, lengths, flat, mask.astype(bool))


@st.composite
def values_of(draw, batch, heads=1):
    """Values of up to four response tokens a step, some of them of the action."""
    lengths = draw(st.lists(st.integers(0, 4), min_size=len(batch), max_size=len(batch)))
    numbers = st.floats(-2, 2, allow_subnormal=False)
    tokens = [draw(arrays(np.float64, (n, heads), elements=numbers)) for n in lengths]
    actions = [draw(arrays(np.bool_, n)) for n in lengths]
    rollouts = len(np.unique(batch.rollout))
    beyond = draw(arrays(np.float64, (rollouts, heads), elements=numbers))
    return critic_values(batch, tokens, actions, beyond, heads)
