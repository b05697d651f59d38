"""What a critic says, for tests: drawn by Hypothesis or written by hand."""

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from trca.algorithms.critic import Values


def critic_values(batch, tokens, actions=None, beyond=None):
    """What a critic with one head says.

    Args:
        batch: S steps.
        tokens: Values of the text before each response token, a list for each step.
        actions: Which of them are of the action, a list for each step; by default all.
        beyond: Value of the state after the last step, for each rollout; by default 0.
    """
    lengths = np.array([len(of_step) for of_step in tokens], dtype=np.int64)
    flat = np.array([value for of_step in tokens for value in of_step], dtype=np.float64)
    state = np.array([of_step[0] if len(of_step) else 0.25 for of_step in tokens], np.float64)
    last = batch.terminated | batch.truncated
    after = np.roll(state, -1)
    after[last] = 0.0 if beyond is None else np.where(batch.truncated[last], beyond, 0.0)
    mask = np.ones(len(flat), bool) if actions is None else np.concatenate([*actions, []])
    return Values(
        state=state[:, None],
        after=after[:, None],
        lengths=lengths,
        tokens=flat[:, None],
        action=mask.astype(bool),
    )


@st.composite
def values_of(draw, batch):
    """Values of up to four response tokens a step, some of them of the action."""
    lengths = draw(st.lists(st.integers(0, 4), min_size=len(batch), max_size=len(batch)))
    numbers = st.floats(-2, 2, allow_subnormal=False)
    tokens = [draw(arrays(np.float64, n, elements=numbers)) for n in lengths]
    actions = [draw(arrays(np.bool_, n)) for n in lengths]
    rollouts = len(np.unique(batch.rollout))
    beyond = draw(arrays(np.float64, rollouts, elements=numbers))
    return critic_values(batch, tokens, actions, beyond)
