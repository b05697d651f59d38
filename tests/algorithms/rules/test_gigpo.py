"""GiGPO by hand and against the slow version, under all its choices."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.algorithms.credit.slow_rules import slow_gigpo
from tests.algorithms.credit.step_batches import batches, rule, step_batch, take_rollouts

gigpo = rule("gigpo")


def test_two_rollouts_by_hand():
    """From context 0 rollout 0 wins two steps later, rollout 1 never wins: R = 1/4 and 0."""
    batch = step_batch([3, 1], [0, 0], [0, 0, 1, 0], [0, 1, 2, 0])
    mean_only = gigpo(batch, gamma=0.5, normalizer="one")
    np.testing.assert_allclose(mean_only, [0.5 + 1 / 8, 0.5, 0.5, -0.5 - 1 / 8])
    half = np.sqrt(0.5)  # two values z apart lie z / 2 from their mean, deviation z / sqrt 2
    scaled = gigpo(batch, gamma=0.5, omega=3.0, epsilon=0.0)
    np.testing.assert_allclose(scaled, [4 * half, half, half, -4 * half])


def test_step_rows_let_long_rollouts_weigh_more():
    """Step rows 0, 0, 0, 1 have mean 1/4; rollouts 0, 1 have mean 1/2."""
    batch = step_batch([3, 1], [0, 0], [0, 0, 0, 1], [0, 1, 2, 3])
    rows = gigpo(batch, normalizer="one", baseline_over="step_row")
    np.testing.assert_allclose(rows, [-0.25, -0.25, -0.25, 0.75])
    rollouts = gigpo(batch, normalizer="one")
    np.testing.assert_allclose(rollouts, [-0.5, -0.5, -0.5, 0.5])


def test_a_response_without_a_command_is_penalised_at_its_own_step_alone():
    batch = step_batch([2, 2], [0, 0], np.zeros(4), [0, 1, 0, 1], parsed=[True, True, True, False])
    advantages = gigpo(batch, normalizer="one", invalid_action_penalty=0.2)
    np.testing.assert_allclose(advantages, [0, 0.1, 0, -0.1])


def test_the_anchor_can_be_the_observation():
    batch = step_batch([1, 1], [0, 0], [1, 0], contexts=[0, 0], observations=[0, 1])
    context, text = (
        gigpo(batch, normalizer="one"),
        gigpo(batch, normalizer="one", anchor="observation"),
    )
    np.testing.assert_allclose(context, [1, -1])
    np.testing.assert_allclose(text, [0.5, -0.5])


def test_similar_texts_are_one_anchor_of_the_first_of_them():
    """0 and 1 differ by a dot; 2 is similar only to 1, which founds no anchor; groups are apart."""
    texts = ("Mug 1 is on desk 1", "Mug 1 is on desk 1.", "Mug 1 is on desk 1...", "Cup")
    batch = step_batch(
        [1] * 5, [0, 0, 0, 0, 1], [1, 0, 0, 0, 0], np.zeros(5), observations=[0, 1, 2, 3, 0],
        texts=texts,
    )  # fmt: skip
    options = {"normalizer": "one", "anchor": "similar"}
    step = gigpo(batch, similarity=0.94, **options) - gigpo(batch, omega=0.0, **options)
    np.testing.assert_allclose(step, [0.5, -0.5, 0, 0, 0])
    all_three = gigpo(batch, similarity=0.9, **options) - gigpo(batch, omega=0.0, **options)
    np.testing.assert_allclose(all_three, [2 / 3, -1 / 3, -1 / 3, 0, 0])


def test_a_text_of_another_group_joins_none_here():
    """0 and 2 are like 1, not like each other: they are apart unless 1 is in their group."""
    texts = ("Mug 1 is on desk 1", "Mug 1 is on desk 1.", "Mug 1 is on desk 1...")
    batch = step_batch(
        [1] * 3, [0, 1, 1], [0, 1, 0], np.zeros(3), observations=[1, 0, 2], texts=texts
    )
    options = {"normalizer": "one", "anchor": "similar", "similarity": 0.94}
    step = gigpo(batch, **options) - gigpo(batch, omega=0.0, **options)
    np.testing.assert_allclose(step, [0, 0, 0])


def test_similar_anchors_need_texts():
    with pytest.raises(ValueError, match="'similar' compares texts"):
        gigpo(step_batch([1], [0], [0], [0]), anchor="similar")


def test_a_success_free_group_has_no_credit():
    batch = step_batch([3, 2], [0, 0], np.zeros(5), [0, 1, 0, 0, 1])
    assert not gigpo(batch).any()


@given(
    batches(outcomes=(0.0, 0.4, 1.0)),
    st.floats(0, 1),
    st.floats(0, 3),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["context", "observation", "similar"]),
    st.sampled_from([0.5, 0.8, 0.9]),
    st.sampled_from([0.0, 0.1]),
)
def test_it_equals_the_slow_version(
    batch, gamma, omega, divide, step_row, anchor, similarity, penalty
):
    fast = gigpo(
        batch,
        gamma=gamma,
        omega=omega,
        normalizer="std" if divide else "one",
        baseline_over="step_row" if step_row else "trajectory",
        anchor=anchor,
        similarity=similarity,
        invalid_action_penalty=penalty,
    )
    slow = slow_gigpo(batch, gamma, omega, divide, step_row, anchor, similarity, penalty)
    np.testing.assert_allclose(fast, slow, rtol=1e-5, atol=1e-5)


@given(batches(), st.randoms())
def test_the_order_of_rollouts_does_not_matter(batch, random):
    order = list(dict.fromkeys(batch.rollout.tolist()))
    random.shuffle(order)
    shuffled, rows = take_rollouts(batch, order)
    np.testing.assert_allclose(gigpo(shuffled), gigpo(batch)[rows], atol=1e-9)


@pytest.mark.parametrize("choice", ["normalizer", "baseline_over", "anchor"])
def test_an_unknown_choice_is_named_with_the_known_ones(choice):
    with pytest.raises(ValueError, match=f"{choice}\n.*Input should be"):
        gigpo(step_batch([1], [0], [0], [0]), **{choice: "nope"})
