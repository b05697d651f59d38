"""GraphGPO by hand and against the slow version."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.algorithms.credit.played import compared, played
from tests.algorithms.credit.public_rules import public_episode, public_graph_credit
from tests.algorithms.credit.slow_rules import slow_graphgpo
from tests.algorithms.credit.step_batches import TEXTS, batches, rule, step_batch

graphgpo = rule("graphgpo")


def step_credit(batch, **options):
    """Only A^G, without division."""
    options = {"normalizer": "one", "distance_gamma": 0.5, **options}
    return graphgpo(batch, **options) - graphgpo(batch, omega=0.0, **options)


def test_a_failed_rollout_is_credited_for_a_step_that_wins_elsewhere():
    """One goes 0, 1, 2 and wins; rollout 1 visits 0, 1, 1, 3 and fails in 4.

    Distances: d(2) = 1, d(1) = 2, d(0) = 3, unreachable 4. R = 10 / 2^d of where a step leads: from
    0 both lead to 1; from 1 to 2, 1 and 3: 5, 2.5 and 0.625; mean 65/24.
    """
    batch = step_batch([3, 4], [0, 0], [0, 0, 1, 0, 0, 0, 0], [0, 1, 2, 0, 1, 1, 3], ends=[9, 4])
    expected = [0, 5 - 65 / 24, 0, 0, 2.5 - 65 / 24, 0.625 - 65 / 24, 0]
    np.testing.assert_allclose(step_credit(batch), expected)


def test_the_outcome_is_added():
    """From one state one wins at once and one stays there: 10 and 5 from a mean of 7.5."""
    batch = step_batch([1, 1], [0, 0], [1, 0], [0, 0])
    half = np.sqrt(0.5)
    np.testing.assert_allclose(graphgpo(batch, epsilon=0.0), [2 * half, -2 * half])
    ones = graphgpo(batch, normalizer="one", distance_gamma=0.5)
    np.testing.assert_allclose(ones, [3, -3])


def test_shortcuts_that_no_rollout_took_alone_are_found():
    """One goes the long way 0, 1, 2, 3 and wins; one jumps from 0 to 3 and then turns to 8."""
    batch = step_batch([4, 2], [0, 0], [0, 0, 0, 1, 0, 0], [0, 1, 2, 3, 0, 3], ends=[9, 8])
    # From 0 the jump leads to d = 1 and the long way to d = 3: 5 against 1.25.
    # From 3 the win is 10; state 8 leads nowhere: the farthest state, 1, is at 3, so 10 / 2^4.
    expected = [-1.875, 0, 0, 4.6875, 1.875, -4.6875]
    np.testing.assert_allclose(step_credit(batch), expected)


def test_a_group_without_success_ties_and_lonely_states_have_no_credit():
    assert not graphgpo(step_batch([3, 2], [0, 0], np.zeros(5), [0, 1, 0, 0, 1])).any()
    assert not graphgpo(step_batch([1, 1], [0, 0], [1, 1], [0, 0])).any()
    assert not step_credit(step_batch([2, 1], [0, 0], [0, 1, 0], [0, 1, 2])).any()


def test_the_success_of_another_group_is_none_of_its_own():
    batch = step_batch([1, 1, 1], [0, 1, 1], [1, 0, 0], [0, 0, 0], ends=[5, 5, 6])
    assert not graphgpo(batch).any()


def test_a_response_without_an_action_is_penalised_on_the_scale_of_the_outcome():
    batch = step_batch([1, 1], [0, 0], [0, 0], [0, 0], parsed=[True, False])
    np.testing.assert_allclose(step_credit(batch, invalid_action_penalty=0.2), [1, -1])


def test_similar_states_are_one_in_the_graph_and_two_groups_of_steps():
    """Texts 0 and 1 are alike. From 3 one rollout goes to 0, one to 2; from 1 a third one wins.

    State 1 is 0 in the graph: d(0) = 1, d(3) = 2, and 2 is unreachable, 3. So from 3 10 / 2 and
    10 / 8. The steps from 0 and 1 are not compared: their texts differ.
    """
    batch = step_batch([2, 1, 1], [0] * 3, [0, 0, 0, 1], [3, 0, 3, 1], ends=[4, 2, 4], texts=TEXTS)
    similar = step_credit(batch, anchor="similar")
    np.testing.assert_allclose(similar, [1.875, 0, -1.875, 0])
    exact = step_credit(batch, anchor="observation")
    np.testing.assert_allclose(exact, [0, 0, 0, 0])


def test_the_last_observation_of_a_success_joins_no_similar_states():
    """Text 0, the end of a success, is like 1 and 2, which are not like each other.

    From 3 one rollout wins and one goes to 2; a third wins from 1. So 2 stays unreachable: 10 and
    10 / 4 from 3. If the texts 1 and 2 were one state, it would be 10 / 2.
    """
    batch = step_batch([1, 1, 1], [0] * 3, [1, 1, 0], [3, 1, 3], ends=[0, 0, 2], texts=TEXTS)
    credit = step_credit(batch, anchor="similar", similarity=0.75)
    np.testing.assert_allclose(credit, [3.75, 0, -3.75])


@pytest.mark.parametrize("share", [0.5, 0.9])
@pytest.mark.parametrize(("anchor", "threshold"), [("observation", None), ("similar", 0.95)])
def test_the_graph_credit_is_that_of_the_public_code(share, anchor, threshold):
    batch = played("trca/ALFWorld-v0", share, games="small", split="train").batch
    settings = {"anchor": anchor, "similarity": threshold or 0.9, "distance_gamma": 0.1}
    credit = graphgpo(batch, **settings) - graphgpo(batch, omega=0.0, **settings)
    public = public_graph_credit(batch, 0.1, threshold)
    np.testing.assert_allclose(credit, public, rtol=0, atol=1e-12)


def test_the_outcome_is_compared_over_rollouts_and_differs_as_declared():
    """In 8 tasks of ALFWorld, half of the actions at random; the size is that of the docstring."""
    batch = played("trca/ALFWorld-v0", 0.5, games="small", split="train").batch
    differing = compared(graphgpo(batch, omega=0.0), public_episode(batch))
    assert differing == (325, 1011, pytest.approx(0.532, abs=1e-3))


@given(
    batches(outcomes=(0.0, 0.0, 1.0)),
    st.sampled_from([0.1, 0.2, 0.5, 1.0]),
    st.floats(0, 3),
    st.booleans(),
    st.sampled_from(["context", "observation", "similar"]),
    st.sampled_from([0.0, 0.01]),
)
def test_it_equals_the_slow_version(batch, gamma, omega, divide, anchor, penalty):
    fast = graphgpo(
        batch,
        distance_gamma=gamma,
        omega=omega,
        normalizer="std" if divide else "one",
        anchor=anchor,
        invalid_action_penalty=penalty,
    )
    slow = slow_graphgpo(batch, gamma, omega, divide, anchor, 0.9, penalty)
    np.testing.assert_allclose(fast, slow, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("choice", ["normalizer", "anchor"])
def test_an_unknown_choice_is_named_with_the_known_ones(choice):
    with pytest.raises(ValueError, match=f"{choice}\n.*Input should be"):
        graphgpo(step_batch([1], [0], [0], [0]), **{choice: "nope"})
