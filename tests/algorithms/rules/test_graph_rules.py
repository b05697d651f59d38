"""Rules that compare steps from equal states, by hand, against slow versions and public code."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.algorithms.credit import slow_rules
from tests.algorithms.credit.played import compared, played
from tests.algorithms.credit.public_rules import public_episode, public_graph_credit, public_hgpo
from tests.algorithms.credit.step_batches import batches, rule, step_batch

NAMES = ("gigpo", "hgpo", "graphgpo", "rewardflow", "g2po", "gagpo")
RULES = {name: rule(name) for name in NAMES}
gigpo, hgpo, graphgpo, rewardflow, g2po, gagpo = RULES.values()
ANCHORS = st.sampled_from(["context", "observation", "similar"])
HALF = np.sqrt(0.5)


def step_credit(credit, batch, **options):
    """Only the part that omega weighs, without division."""
    options = {"normalizer": "one", **options}
    return credit(batch, **options) - credit(batch, omega=0.0, **options)


def normalised(values):
    return (values - np.mean(values)) / np.std(values, ddof=1)


# Every rule

SETTINGS = {
    "gamma": st.sampled_from([0.0, 0.3, 0.5, 0.95, 1.0]),
    "distance_gamma": st.sampled_from([0.1, 0.2, 0.5, 1.0]),
    "gae_lambda": st.floats(0, 1),
    "omega": st.floats(0, 3),
    "divide": st.booleans(),
    "step_row": st.booleans(),
    "anchor": ANCHORS,
    "similarity": st.sampled_from([0.5, 0.8, 0.9]),
    "past_anchors": st.integers(0, 4),
    "alpha": st.sampled_from([0.0, 1.0, 2.5]),
    "penalty": st.sampled_from([0.0, 0.01, 0.1]),
    "drop_zero_levels": st.booleans(),
}
STEP = ("gamma", "omega", "divide", "anchor", "similarity", "penalty")
SLOW = {
    "gigpo": (*STEP[:3], "step_row", *STEP[3:]),
    "hgpo": ("gamma", "past_anchors", "alpha", *STEP[3:], "drop_zero_levels"),
    "graphgpo": ("distance_gamma", *STEP[1:]),
    "rewardflow": STEP,
    "g2po": STEP,
    "gagpo": ("gamma", "gae_lambda", "anchor", "similarity"),
}
"""The settings of each slow version, in the order of its arguments."""


@pytest.mark.parametrize("name", NAMES)
@given(st.data(), batches(outcomes=(0.0, 0.4, 1.0)))
def test_it_equals_the_slow_version(name, data, batch):
    values = {setting: data.draw(SETTINGS[setting]) for setting in SLOW[name]}
    slow = getattr(slow_rules, f"slow_{name}")(batch, *values.values())
    given_names = {"penalty": "invalid_action_penalty"}
    settings = {given_names.get(key, key): value for key, value in values.items()}
    if "divide" in settings:
        settings["normalizer"] = "std" if settings.pop("divide") else "one"
    if "step_row" in settings:
        settings["baseline_over"] = "step_row" if settings.pop("step_row") else "trajectory"
    np.testing.assert_allclose(RULES[name](batch, **settings), slow, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_ties_lonely_states_and_groups_without_success_have_no_credit(name):
    credit, whole = RULES[name], {} if name == "graphgpo" else {"gamma": 1.0}
    assert not credit(step_batch([3, 1], [0, 0], np.zeros(4), np.zeros(4))).any()
    assert not credit(step_batch([3, 2], [0, 0], np.zeros(5), [0, 1, 0, 0, 1])).any()
    assert not credit(step_batch([1, 1], [0, 0], [1, 1], [0, 0]), **whole).any()
    assert not credit(step_batch([1], [0], [1], [0])).any()
    lonely = step_batch([2, 1], [0, 0], [0, 1, 0], [0, 1, 2])
    if name == "hgpo":
        assert not hgpo(lonely).any()
    elif name not in ("g2po", "gagpo"):  # whose norms are over the steps of the group
        assert not step_credit(credit, lonely).any()


@pytest.mark.parametrize(
    ("name", "choice"),
    [
        *((name, "anchor") for name in NAMES),
        *((name, "normalizer") for name in ("gigpo", "graphgpo", "rewardflow", "g2po")),
        ("gigpo", "baseline_over"),
    ],
)
def test_an_unknown_choice_is_named_with_the_known_ones(name, choice):
    with pytest.raises(ValueError, match=f"{choice}\n.*Input should be"):
        RULES[name](step_batch([1], [0], [0], [0]), **{choice: "nope"})


@pytest.mark.parametrize(("name", "setting"), [("rewardflow", "gamma"), ("gagpo", "gae_lambda")])
def test_a_share_out_of_range_is_refused(name, setting):
    with pytest.raises(ValueError, match=rf"{setting}\n.*less than or equal to 1"):
        RULES[name](step_batch([1], [0], [0], [0]), **{setting: 1.1})


# GiGPO


def test_gigpo_of_two_rollouts_by_hand():
    """From context 0 rollout 0 wins two steps later, rollout 1 never wins: R = 1/4 and 0."""
    batch = step_batch([3, 1], [0, 0], [0, 0, 1, 0], [0, 1, 2, 0])
    mean_only = gigpo(batch, gamma=0.5, normalizer="one")
    np.testing.assert_allclose(mean_only, [0.5 + 1 / 8, 0.5, 0.5, -0.5 - 1 / 8])
    # Two values z apart are z / 2 from their mean, with deviation z / sqrt 2.
    scaled = gigpo(batch, gamma=0.5, omega=3.0, epsilon=0.0)
    np.testing.assert_allclose(scaled, [4 * HALF, HALF, HALF, -4 * HALF])


def test_similar_texts_are_one_anchor_of_the_first_of_them():
    """0 and 1 differ by a dot; 2 is similar only to 1, which founds no anchor; groups are apart."""
    texts = ("Mug 1 is on desk 1", "Mug 1 is on desk 1.", "Mug 1 is on desk 1...", "Cup")
    batch = step_batch(
        [1] * 5, [0, 0, 0, 0, 1], [1, 0, 0, 0, 0], np.zeros(5), observations=[0, 1, 2, 3, 0],
        texts=texts,
    )  # fmt: skip
    two = step_credit(gigpo, batch, anchor="similar", similarity=0.94)
    np.testing.assert_allclose(two, [0.5, -0.5, 0, 0, 0])
    all_three = step_credit(gigpo, batch, anchor="similar", similarity=0.9)
    np.testing.assert_allclose(all_three, [2 / 3, -1 / 3, -1 / 3, 0, 0])


def test_similar_anchors_need_texts():
    with pytest.raises(ValueError, match="'similar' compares texts"):
        gigpo(step_batch([1], [0], [0], [0]), anchor="similar")


# HGPO

PLAIN = {"gamma": 1.0, "epsilon": 0.0}


def test_a_longer_history_in_common_weighs_more_by_hand():
    """Three rollouts end in state 5, the first two after 1, the third after 2; one wins.

    Level 1 of the last steps: returns 1, 0, 0 have mean 1/3 and deviation sqrt 2 / 3, so that it
    gives sqrt 2, -1/sqrt 2, -1/sqrt 2. Level 2 compares only the first two: 1, -1. Weights 2, 3.
    """
    batch = step_batch([2, 2, 2], [0] * 3, [0, 1, 0, 0, 0, 0], [1, 5, 1, 5, 2, 5])
    root = np.sqrt(2)
    advantages = hgpo(batch, past_anchors=1, **PLAIN)
    last = [(2 * root + 3) / 5, (-2 / root - 3) / 5, -1 / root]
    np.testing.assert_allclose(advantages[1::2], last)
    np.testing.assert_allclose(advantages[0::2], [1, -1, 0])
    alike = hgpo(batch, past_anchors=1, alpha=0.0, **PLAIN)
    np.testing.assert_allclose(alike[1], (root + 1) / 2)
    no_past = hgpo(batch, past_anchors=0, **PLAIN)  # the step credit of equal states
    np.testing.assert_allclose(no_past, [1, root, -1, -1 / root, 0, -1 / root])


@pytest.mark.parametrize(
    ("share", "wins", "rows", "steps", "most"),
    [(0.5, 62, 50, 1011, 1.004), (0.9, 3, 26, 1900, 0.453)],
)
def test_the_public_hgpo_is_the_option_and_differs_from_the_default_as_declared(
    share, wins, rows, steps, most
):
    """Played in ALFWorld, half or nine tenths at random; the sizes equal the docstring's."""
    batch = played("trca/ALFWorld-v0", share, games="small", split="train").batch
    assert batch.won.sum() == wins
    settings = {"gamma": 0.95, "anchor": "observation", "invalid_action_penalty": 0.0}
    public = public_hgpo(batch, gamma=0.95, past_anchors=2, alpha=1.0)
    dropped = hgpo(batch, drop_zero_levels=True, **settings)
    np.testing.assert_allclose(dropped, public, rtol=0, atol=1e-12)
    differing = compared(hgpo(batch, **settings), public)
    assert differing == (rows, steps, pytest.approx(most, abs=1e-3))


# GraphGPO


def nearness_credit(batch, **options):
    return step_credit(graphgpo, batch, **{"distance_gamma": 0.5, **options})


def test_a_failed_rollout_is_credited_for_a_step_that_wins_elsewhere():
    """One goes 0, 1, 2 and wins; rollout 1 visits 0, 1, 1, 3 and fails in 4.

    Distances: d(2) = 1, d(1) = 2, d(0) = 3, unreachable 4. R = 10 / 2^d of where a step leads: from
    0 both lead to 1; from 1 to 2, 1 and 3: 5, 2.5 and 0.625; mean 65/24. The longer way of another
    group changes nothing.
    """
    contexts = [0, 1, 2, 0, 1, 1, 3, *range(6)]
    rewards = [0, 0, 1, 0, 0, 0, 0, *[0] * 5, 1]
    batch = step_batch([3, 4, 6], [0, 0, 1], rewards, contexts, ends=[9, 4, 9])
    expected = [0, 5 - 65 / 24, 0, 0, 2.5 - 65 / 24, 0.625 - 65 / 24, *[0] * 7]
    np.testing.assert_allclose(nearness_credit(batch), expected)


def test_shortcuts_that_no_rollout_took_alone_are_found():
    """One goes the long way 0, 1, 2, 3 and wins; one jumps from 0 to 3 and then turns to 8."""
    batch = step_batch([4, 2], [0, 0], [0, 0, 0, 1, 0, 0], [0, 1, 2, 3, 0, 3], ends=[9, 8])
    # From 0 the jump leads to d = 1 and the long way to d = 3: 5 against 1.25.
    # From 3 the win is 10; state 8 leads nowhere: the farthest state, 1, is at 3, so 10 / 2^4.
    np.testing.assert_allclose(nearness_credit(batch), [-1.875, 0, 0, 4.6875, 1.875, -4.6875])


@pytest.mark.parametrize("share", [0.5, 0.9])
@pytest.mark.parametrize(("anchor", "threshold"), [("observation", None), ("similar", 0.95)])
def test_the_graph_credit_is_that_of_the_public_code(share, anchor, threshold):
    batch = played("trca/ALFWorld-v0", share, games="small", split="train").batch
    settings = {"anchor": anchor, "similarity": threshold or 0.9, "distance_gamma": 0.1}
    credit = step_credit(graphgpo, batch, normalizer="std", **settings)
    public = public_graph_credit(batch, 0.1, threshold)
    np.testing.assert_allclose(credit, public, rtol=0, atol=1e-12)


def test_the_outcome_is_compared_over_rollouts_and_differs_as_declared():
    """In 8 tasks of ALFWorld, half of the actions at random; the size is that of the docstring."""
    batch = played("trca/ALFWorld-v0", 0.5, games="small", split="train").batch
    differing = compared(graphgpo(batch, omega=0.0), public_episode(batch))
    assert differing == (325, 1011, pytest.approx(0.532, abs=1e-3))


# RewardFlow


def test_a_value_flows_back_into_a_failed_rollout_by_hand():
    """One goes 0, 1 and wins; rollout 1 visits 0, 1, 2 and fails in 3: V(1) = 1/2, V(0) = 1/4.

    From 1 the win gains 1 - 1/2, and the way to 2 loses 1/2; from 0 both gain 1/4.
    """
    batch = step_batch([2, 3], [0, 0], [0, 1, 0, 0, 0], [0, 1, 0, 1, 2], ends=[9, 3])
    np.testing.assert_allclose(step_credit(rewardflow, batch, gamma=0.5), [0, 0.5, 0, -0.5, 0])
    whole = rewardflow(batch, normalizer="one", gamma=0.5)
    np.testing.assert_allclose(whole, [0.5, 1, -0.5, -1, -0.5])


# G2PO


def test_a_rollout_that_wins_and_one_that_leaves_its_way_by_hand():
    """Rollout 0 visits 0, 1 and wins, rollout 1 visits 0, 2 and fails.

    V(0) = mean of 1/4 and 0 = 1/8, V(1) = 1/2, V(2) = 0. What lies ahead: 1/2, 1 | 0, 0. Gains:
    3/8, 1/2 | -1/8, 0 with mean 3/16; from 0 the ways lead to 1/2 and 0 with mean 1/4.
    """
    batch = step_batch([2, 2], [0, 0], [0, 1, 0, 0], [0, 1, 0, 2])
    expected = np.array([1 / 4, 0, -1 / 4, 0]) + np.array([3 / 8, 1 / 2, -1 / 8, 0]) - 3 / 16
    np.testing.assert_allclose(step_credit(g2po, batch, gamma=0.5), expected)
    outcome = np.array([0.5, 0.5, -0.5, -0.5])
    np.testing.assert_allclose(g2po(batch, normalizer="one", gamma=0.5), outcome + expected)


# GAGPO


def test_temporal_differences_alone_by_hand():
    """Rollout 0 visits 0, 1 and wins, rollout 1 visits 0, 2 and fails.

    V(0) = 1/4, V(1) = 1, V(2) = 0: delta = 1/2 - 1/4, 1 - 1 | 0 - 1/4, 0.
    """
    batch = step_batch([2, 2], [0, 0], [0, 1, 0, 0], [0, 1, 0, 2])
    advantages = gagpo(batch, gamma=0.5, gae_lambda=0.0, epsilon=0.0)
    np.testing.assert_allclose(advantages, normalised([1 / 4, 0, -1 / 4, 0]), atol=1e-12)
