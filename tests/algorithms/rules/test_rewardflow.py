"""RewardFlow by hand and against the slow version."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.algorithms.credit.slow_rules import slow_rewardflow
from tests.algorithms.credit.step_batches import batches, rule, step_batch

rewardflow = rule("rewardflow")


def step_credit(batch, **options):
    """Only A^S, without division."""
    options = {"normalizer": "one", "gamma": 0.5, **options}
    return rewardflow(batch, **options) - rewardflow(batch, omega=0.0, **options)


def test_a_value_flows_back_into_a_failed_rollout_by_hand():
    """One goes 0, 1 and wins; rollout 1 visits 0, 1, 2 and fails in 3: V(1) = 1/2, V(0) = 1/4.

    From 1 the win gains 1 - 1/2, and the way to 2 loses 1/2; from 0 both gain 1/4.
    """
    batch = step_batch([2, 3], [0, 0], [0, 1, 0, 0, 0], [0, 1, 0, 1, 2], ends=[9, 3])
    np.testing.assert_allclose(step_credit(batch), [0, 0.5, 0, -0.5, 0])
    np.testing.assert_allclose(
        rewardflow(batch, normalizer="one", gamma=0.5), [0.5, 1, -0.5, -1, -0.5]
    )


def test_of_two_ways_the_better_counts():
    """From 0 one wins a score of 1/2 at once, one goes to 1, where a third wins 1 at once.

    V(1) = 1/2, V(0) = max(1/4, 1/4): the steps from 0 gain 1/4 and 1/4; with gamma 0.9, V(1) = .9
    and V(0) = .81: they gain -.31 and .09.
    """
    batch = step_batch([1, 2, 1], [0] * 3, [0.5, 0, 0, 1], [0, 0, 1, 1], ends=[9, 4, 9])
    np.testing.assert_allclose(step_credit(batch)[:2], [0, 0], atol=1e-12)
    np.testing.assert_allclose(step_credit(batch, gamma=0.9)[:2], [-0.2, 0.2])


def test_circles_end():
    batch = step_batch([5], [0], [0, 0, 0, 0, 1], [0, 1, 0, 1, 0], ends=[1])
    assert np.isfinite(rewardflow(batch, gamma=1.0)).all()


def test_ties_lonely_states_and_success_free_groups_have_no_credit():
    assert not rewardflow(step_batch([2, 2], [0, 0], [0, 1, 0, 1], [0, 1, 0, 1])).any()
    assert not step_credit(step_batch([2, 1], [0, 0], [0, 1, 0], [0, 1, 2])).any()
    assert not rewardflow(step_batch([3, 1], [0, 0], np.zeros(4), np.zeros(4))).any()


@given(
    batches(outcomes=(0.0, 0.4, 1.0)),
    st.sampled_from([0.0, 0.5, 0.95, 1.0]),
    st.floats(0, 3),
    st.booleans(),
    st.sampled_from(["context", "observation", "similar"]),
    st.sampled_from([0.0, 0.1]),
)
def test_it_equals_the_slow_version(batch, gamma, omega, divide, anchor, penalty):
    fast = rewardflow(
        batch,
        gamma=gamma,
        omega=omega,
        normalizer="std" if divide else "one",
        anchor=anchor,
        invalid_action_penalty=penalty,
    )
    slow = slow_rewardflow(batch, gamma, omega, divide, anchor, 0.9, penalty)
    np.testing.assert_allclose(fast, slow, rtol=1e-5, atol=1e-5)


def test_a_discount_out_of_range_is_refused():
    with pytest.raises(ValueError, match=r"gamma\n.*less than or equal to 1"):
        rewardflow(step_batch([1], [0], [0], [0]), gamma=1.1)
