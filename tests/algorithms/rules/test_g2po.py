"""G2PO by hand and against the slow version."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.algorithms.credit.slow_rules import slow_g2po
from tests.algorithms.credit.step_batches import batches, rule, step_batch

g2po = rule("g2po")


def step_credit(batch, **options):
    """A^N + A^T, without division."""
    options = {"normalizer": "one", "gamma": 0.5, **options}
    return g2po(batch, **options) - g2po(batch, omega=0.0, **options)


def test_a_rollout_that_wins_and_one_that_leaves_its_way_by_hand():
    """Rollout 0 visits 0, 1 and wins, rollout 1 visits 0, 2 and fails.

    V(0) = mean of 1/4 and 0 = 1/8, V(1) = 1/2, V(2) = 0. What lies ahead: 1/2, 1 | 0, 0. Gains:
    3/8, 1/2 | -1/8, 0 with mean 3/16; from 0 the ways lead to 1/2 and 0 with mean 1/4.
    """
    batch = step_batch([2, 2], [0, 0], [0, 1, 0, 0], [0, 1, 0, 2])
    expected = np.array([1 / 4, 0, -1 / 4, 0]) + np.array([3 / 8, 1 / 2, -1 / 8, 0]) - 3 / 16
    np.testing.assert_allclose(step_credit(batch), expected)
    outcome = np.array([0.5, 0.5, -0.5, -0.5])
    np.testing.assert_allclose(g2po(batch, normalizer="one", gamma=0.5), outcome + expected)


def test_each_norm_divides_by_its_own_deviation():
    """From one state one wins and one fails: each of the three parts is 1 / sqrt 2."""
    batch = step_batch([1, 1], [0, 0], [1, 0], [0, 0])
    root = np.sqrt(0.5)
    np.testing.assert_allclose(g2po(batch, epsilon=0.0), [3 * root, -3 * root])


def test_a_state_is_worth_the_mean_of_all_its_visits():
    """State 1 is seen three times: twice on the way to a win, once in a failure."""
    batch = step_batch([3, 1], [0, 0], [0, 0, 1, 0], [0, 1, 1, 1])
    value = (1 / 4 + 1 / 2 + 0) / 3
    ahead = np.array([value, value, 1, 0])
    gains = ahead - [1 / 8, value, value, value]
    local = np.append(0, ahead[1:] - ahead[1:].mean())
    np.testing.assert_allclose(step_credit(batch), local + gains - gains.mean())


def test_ties_and_success_free_groups_have_no_credit():
    assert not g2po(step_batch([1, 1], [0, 0], [1, 1], [0, 0])).any()
    assert not g2po(step_batch([1], [0], [1], [0])).any()
    assert not g2po(step_batch([3, 1], [0, 0], np.zeros(4), np.zeros(4))).any()


def test_a_response_without_an_action_is_penalised_against_its_own_state_alone():
    parsed = [True, False, True]
    batch = step_batch([1, 1, 1], [0] * 3, np.zeros(3), [0, 0, 1], parsed=parsed)
    np.testing.assert_allclose(step_credit(batch, invalid_action_penalty=0.2), [0.1, -0.1, 0])


@given(
    batches(outcomes=(0.0, 0.4, 1.0)),
    st.floats(0, 1),
    st.floats(0, 3),
    st.booleans(),
    st.sampled_from(["context", "observation", "similar"]),
    st.sampled_from([0.0, 0.1]),
)
def test_it_equals_the_slow_version(batch, gamma, omega, divide, anchor, penalty):
    fast = g2po(
        batch,
        gamma=gamma,
        omega=omega,
        normalizer="std" if divide else "one",
        anchor=anchor,
        invalid_action_penalty=penalty,
    )
    slow = slow_g2po(batch, gamma, omega, divide, anchor, 0.9, penalty)
    np.testing.assert_allclose(fast, slow, rtol=1e-5, atol=1e-5)


def test_an_unknown_normalizer_is_named_with_the_known_ones():
    with pytest.raises(ValueError, match=r"normalizer\n.*Input should be 'std' or 'one'"):
        g2po(step_batch([1], [0], [0], [0]), normalizer="nope")
