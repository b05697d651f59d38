"""HGPO by hand and against the slow version."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.algorithms.credit.played import compared, played
from tests.algorithms.credit.public_rules import public_hgpo
from tests.algorithms.credit.slow_rules import slow_hgpo
from tests.algorithms.credit.step_batches import batches, rule, step_batch

hgpo = rule("hgpo")
plain = {"gamma": 1.0, "epsilon": 0.0}


def test_a_longer_history_in_common_weighs_more_by_hand():
    """Three rollouts end in state 5, the first two after 1, the third after 2; one wins.

    Level 1 of the last steps: returns 1, 0, 0 have mean 1/3 and deviation sqrt 2 / 3, so that it
    gives sqrt 2, -1/sqrt 2, -1/sqrt 2. Level 2 compares only the first two: 1, -1. Weights 2, 3.
    """
    batch = step_batch([2, 2, 2], [0] * 3, [0, 1, 0, 0, 0, 0], [1, 5, 1, 5, 2, 5])
    root = np.sqrt(2)
    advantages = hgpo(batch, past_anchors=1, **plain)
    last = [(2 * root + 3) / 5, (-2 / root - 3) / 5, -1 / root]
    np.testing.assert_allclose(advantages[1::2], last)
    np.testing.assert_allclose(advantages[0::2], [1, -1, 0])
    alike = hgpo(batch, past_anchors=1, alpha=0.0, **plain)
    np.testing.assert_allclose(alike[1], (root + 1) / 2)


def test_without_a_past_it_is_the_step_credit_of_equal_states():
    batch = step_batch([2, 2, 2], [0] * 3, [0, 1, 0, 0, 0, 0], [1, 5, 1, 5, 2, 5])
    root = np.sqrt(2)
    advantages = hgpo(batch, past_anchors=0, **plain)
    np.testing.assert_allclose(advantages, [1, root, -1, -1 / root, 0, -1 / root])


def test_a_level_without_variance_counts_unless_it_is_dropped_by_hand():
    """Three rollouts end in state 5, the first two after 1; these two win, the third fails.

    Level 1 of the last steps: returns 1, 1, 0 have mean 2/3 and deviation sqrt 2 / 3. Level 2
    compares two equal returns: 0. Weights 2 and 3.
    """
    batch = step_batch([2, 2, 2], [0] * 3, [0, 1, 0, 1, 0, 0], [1, 5, 1, 5, 2, 5])
    first = 1 / np.sqrt(2)
    kept = hgpo(batch, past_anchors=1, **plain)
    np.testing.assert_allclose(kept[1::2], [2 / 5 * first, 2 / 5 * first, -2 * first])
    dropped = hgpo(batch, past_anchors=1, drop_zero_levels=True, **plain)
    np.testing.assert_allclose(dropped[1::2], [first, first, -2 * first])
    np.testing.assert_array_equal(dropped[0::2], np.zeros(3))


def test_a_return_that_is_the_mean_of_its_level_is_dropped_from_it_too_by_hand():
    """Returns 1, 1/2 and 0 from one state; the second shares its past only with the third."""
    rewards = [0, 1, 0, 1 / 2, 0, 0]
    batch = step_batch([2, 2, 2], [0] * 3, rewards, [2, 5, 1, 5, 1, 5])
    kept = hgpo(batch, past_anchors=1, **plain)
    np.testing.assert_allclose(kept[3], 3 / 5)
    np.testing.assert_allclose(hgpo(batch, past_anchors=1, drop_zero_levels=True, **plain)[3], 1)


@pytest.mark.parametrize(
    ("share", "wins", "rows", "steps", "most"),
    [(0.5, 62, 50, 1011, 1.004), (0.9, 3, 26, 1900, 0.453)],
)
def test_the_public_code_is_the_option_and_differs_from_the_default_as_declared(
    share, wins, rows, steps, most
):
    """Played in ALFWorld, half or nine tenths at random; the sizes equal the docstring's."""
    batch = played("trca/ALFWorld-v0", share, games="small", split="train").batch
    assert batch.won.sum() == wins
    settings = {"gamma": 0.95, "anchor": "observation", "invalid_action_penalty": 0.0}
    public = public_hgpo(batch, gamma=0.95, past_anchors=2, alpha=1.0)
    np.testing.assert_allclose(
        hgpo(batch, drop_zero_levels=True, **settings), public, rtol=0, atol=1e-12
    )
    differing = compared(hgpo(batch, **settings), public)
    assert differing == (rows, steps, pytest.approx(most, abs=1e-3))


def test_a_rollout_too_short_for_a_level_is_not_in_it():
    """The first steps share a state with a second step, and have no second level."""
    batch = step_batch([1, 2], [0, 0], [1, 0, 0], [4, 3, 4])
    np.testing.assert_allclose(hgpo(batch, **plain), [1, 0, -1])


def test_ties_lonely_states_and_success_free_groups_have_no_credit():
    assert not hgpo(step_batch([2, 2], [0, 0], [0, 1, 0, 1], [0, 1, 0, 1])).any()
    assert not hgpo(step_batch([2, 1], [0, 0], [0, 1, 0], [0, 1, 2])).any()
    assert not hgpo(step_batch([3, 1], [0, 0], np.zeros(4), np.zeros(4))).any()


def test_a_response_without_an_action_is_penalised_at_its_own_step_alone():
    parsed = [True, True, True, False]
    batch = step_batch([2, 2], [0, 0], np.zeros(4), [0, 1, 0, 1], parsed=parsed)
    advantages = hgpo(batch, past_anchors=0, invalid_action_penalty=0.2, epsilon=0.0)
    np.testing.assert_allclose(advantages, [0, 1, 0, -1])


@given(
    batches(outcomes=(0.0, 0.4, 1.0)),
    st.floats(0, 1),
    st.integers(0, 4),
    st.sampled_from([0.0, 1.0, 2.5]),
    st.sampled_from(["context", "observation", "similar"]),
    st.sampled_from([0.0, 0.1]),
    st.booleans(),
)
def test_it_equals_the_slow_version(batch, gamma, past_anchors, alpha, anchor, penalty, drop):
    fast = hgpo(
        batch,
        gamma=gamma,
        past_anchors=past_anchors,
        alpha=alpha,
        anchor=anchor,
        invalid_action_penalty=penalty,
        drop_zero_levels=drop,
    )
    slow = slow_hgpo(batch, gamma, past_anchors, alpha, anchor, 0.9, penalty, drop)
    np.testing.assert_allclose(fast, slow, rtol=1e-5, atol=1e-5)


def test_an_unknown_anchor_is_named_with_the_known_ones():
    with pytest.raises(ValueError, match=r"anchor\n.*Input should be 'context'"):
        hgpo(step_batch([1], [0], [0], [0]), anchor="nope")
