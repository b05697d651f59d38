"""GAGPO by hand and against the slow version."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.algorithms.credit.slow_rules import slow_gagpo
from tests.algorithms.credit.step_batches import batches, rule, step_batch

gagpo = rule("gagpo")
# Rollout 0 visits 0, 1 and wins, rollout 1 visits 0, 2 and fails.
# With gamma 1/2, V(0) = 1/4, V(1) = 1, V(2) = 0.
BATCH = step_batch([2, 2], [0, 0], [0, 1, 0, 0], [0, 1, 0, 2])


def normalised(values):
    return (values - np.mean(values)) / np.std(values, ddof=1)


def test_temporal_differences_alone_by_hand():
    """delta = 1/2 - 1/4, 1 - 1 | 0 - 1/4, 0."""
    advantages = gagpo(BATCH, gamma=0.5, gae_lambda=0.0, epsilon=0.0)
    np.testing.assert_allclose(advantages, normalised([1 / 4, 0, -1 / 4, 0]), atol=1e-12)


def test_all_of_them_are_the_return_less_the_value():
    batch = step_batch([3, 2], [0, 0], [0, 0, 1, 0, 0], [0, 1, 0, 0, 1])
    value_0, value_1 = (1 / 4 + 1 + 0) / 3, (1 / 2 + 0) / 2
    expected = [1 / 4 - value_0, 1 / 2 - value_1, 1 - value_0, -value_0, -value_1]
    advantages = gagpo(batch, gamma=0.5, gae_lambda=1.0, epsilon=0.0)
    np.testing.assert_allclose(advantages, normalised(expected))


def test_later_differences_count_by_gamma_lambda():
    """One goes 0, 1 and wins, another starts in 1 and fails: V(0) = 1, V(1) = 1/2 under gamma 1.

    delta = 1/2 - 1, 1 - 1/2 | -1/2; half of the winning surprise goes back to the first step.
    """
    batch = step_batch([2, 1], [0, 0], [0, 1, 0], [0, 1, 1])
    advantages = gagpo(batch, gamma=1.0, gae_lambda=0.5, epsilon=0.0)
    np.testing.assert_allclose(advantages, normalised([-1 / 4, 1 / 2, -1 / 2]))


def test_ties_and_success_free_groups_have_no_credit():
    assert not gagpo(step_batch([2, 2], [0, 0], [0, 1, 0, 1], [0, 1, 0, 1]), gamma=1.0).any()
    assert not gagpo(step_batch([1], [0], [1], [0])).any()
    assert not gagpo(step_batch([3, 1], [0, 0], np.zeros(4), np.zeros(4))).any()


@given(
    batches(outcomes=(0.0, 0.4, 1.0)),
    st.floats(0, 1),
    st.floats(0, 1),
    st.sampled_from(["context", "observation", "similar"]),
)
def test_it_equals_the_slow_version(batch, gamma, gae_lambda, anchor):
    fast = gagpo(batch, gamma=gamma, gae_lambda=gae_lambda, anchor=anchor)
    slow = slow_gagpo(batch, gamma, gae_lambda, anchor, 0.9)
    np.testing.assert_allclose(fast, slow, rtol=1e-5, atol=1e-5)


def test_a_lambda_out_of_range_is_refused():
    with pytest.raises(ValueError, match=r"gae_lambda\n.*less than or equal to 1"):
        gagpo(BATCH, gae_lambda=1.5)
