"""Rules that compare steps from equal states, by hand, against slow versions and public code."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.algorithms.credit import slow_rules
from tests.algorithms.credit.played import compared, played
from tests.algorithms.credit.public_rules import public_episode, public_graph_credit, public_hgpo
from tests.algorithms.credit.step_batches import TEXTS, batches, rule, step_batch

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


def test_step_rows_let_long_rollouts_weigh_more():
    """Step rows 0, 0, 0, 1 have mean 1/4; rollouts 0, 1 have mean 1/2."""
    batch = step_batch([3, 1], [0, 0], [0, 0, 0, 1], [0, 1, 2, 3])
    rows = gigpo(batch, normalizer="one", baseline_over="step_row")
    np.testing.assert_allclose(rows, [-0.25, -0.25, -0.25, 0.75])
    rollouts = gigpo(batch, normalizer="one")
    np.testing.assert_allclose(rollouts, [-0.5, -0.5, -0.5, 0.5])


def test_gigpo_penalises_a_response_without_an_action_at_its_step_only():
    batch = step_batch([2, 2], [0, 0], np.zeros(4), [0, 1, 0, 1], parsed=[True, True, True, False])
    advantages = gigpo(batch, normalizer="one", invalid_action_penalty=0.2)
    np.testing.assert_allclose(advantages, [0, 0.1, 0, -0.1])


def test_the_anchor_can_be_the_observation():
    batch = step_batch([1, 1], [0, 0], [1, 0], contexts=[0, 0], observations=[0, 1])
    np.testing.assert_allclose(gigpo(batch, normalizer="one"), [1, -1])
    text = gigpo(batch, normalizer="one", anchor="observation")
    np.testing.assert_allclose(text, [0.5, -0.5])


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


def test_a_text_of_another_group_joins_none_here():
    """0 and 2 are like 1, not like each other: they are apart unless 1 is in their group."""
    texts = ("Mug 1 is on desk 1", "Mug 1 is on desk 1.", "Mug 1 is on desk 1...")
    batch = step_batch(
        [1] * 3, [0, 1, 1], [0, 1, 0], np.zeros(3), observations=[1, 0, 2], texts=texts
    )
    assert not step_credit(gigpo, batch, anchor="similar", similarity=0.94).any()


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


def test_a_level_without_variance_counts_unless_it_is_dropped_by_hand():
    """Three rollouts end in state 5, the first two after 1; these two win, the third fails.

    Level 1 of the last steps: returns 1, 1, 0 have mean 2/3 and deviation sqrt 2 / 3. Level 2
    compares two equal returns: 0. Weights 2 and 3.
    """
    batch = step_batch([2, 2, 2], [0] * 3, [0, 1, 0, 1, 0, 0], [1, 5, 1, 5, 2, 5])
    kept = hgpo(batch, past_anchors=1, **PLAIN)
    np.testing.assert_allclose(kept[1::2], [2 / 5 * HALF, 2 / 5 * HALF, -2 * HALF])
    dropped = hgpo(batch, past_anchors=1, drop_zero_levels=True, **PLAIN)
    np.testing.assert_allclose(dropped[1::2], [HALF, HALF, -2 * HALF])
    np.testing.assert_array_equal(dropped[0::2], np.zeros(3))


def test_a_return_that_is_the_mean_of_its_level_is_dropped_from_it_too_by_hand():
    """Returns 1, 1/2 and 0 from one state; the second shares its past only with the third."""
    rewards = [0, 1, 0, 1 / 2, 0, 0]
    batch = step_batch([2, 2, 2], [0] * 3, rewards, [2, 5, 1, 5, 1, 5])
    kept = hgpo(batch, past_anchors=1, **PLAIN)
    np.testing.assert_allclose(kept[3], 3 / 5)
    np.testing.assert_allclose(hgpo(batch, past_anchors=1, drop_zero_levels=True, **PLAIN)[3], 1)


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


def test_a_rollout_too_short_for_a_level_is_not_in_it():
    """The first steps share a state with a second step, and have no second level."""
    batch = step_batch([1, 2], [0, 0], [1, 0, 0], [4, 3, 4])
    np.testing.assert_allclose(hgpo(batch, **PLAIN), [1, 0, -1])


def test_hgpo_penalises_a_response_without_an_action_at_its_step_only():
    parsed = [True, True, True, False]
    batch = step_batch([2, 2], [0, 0], np.zeros(4), [0, 1, 0, 1], parsed=parsed)
    advantages = hgpo(batch, past_anchors=0, invalid_action_penalty=0.2, epsilon=0.0)
    np.testing.assert_allclose(advantages, [0, 1, 0, -1])


# GraphGPO


def nearness_credit(batch, **options):
    return step_credit(graphgpo, batch, **{"distance_gamma": 0.5, **options})


def test_a_failed_rollout_is_credited_for_a_step_that_wins_elsewhere():
    """One goes 0, 1, 2 and wins; rollout 1 visits 0, 1, 1, 3 and fails in 4.

    Distances: d(2) = 1, d(1) = 2, d(0) = 3, unreachable 4. R = 10 / 2^d of where a step leads: from
    0 both lead to 1; from 1 to 2, 1 and 3: 5, 2.5 and 0.625; mean 65/24.
    """
    batch = step_batch([3, 4], [0, 0], [0, 0, 1, 0, 0, 0, 0], [0, 1, 2, 0, 1, 1, 3], ends=[9, 4])
    expected = [0, 5 - 65 / 24, 0, 0, 2.5 - 65 / 24, 0.625 - 65 / 24, 0]
    np.testing.assert_allclose(nearness_credit(batch), expected)


def test_the_outcome_is_added():
    """From one state one wins at once and one stays there: 10 and 5 from a mean of 7.5."""
    batch = step_batch([1, 1], [0, 0], [1, 0], [0, 0])
    np.testing.assert_allclose(graphgpo(batch, epsilon=0.0), [2 * HALF, -2 * HALF])
    ones = graphgpo(batch, normalizer="one", distance_gamma=0.5)
    np.testing.assert_allclose(ones, [3, -3])


def test_shortcuts_that_no_rollout_took_alone_are_found():
    """One goes the long way 0, 1, 2, 3 and wins; one jumps from 0 to 3 and then turns to 8."""
    batch = step_batch([4, 2], [0, 0], [0, 0, 0, 1, 0, 0], [0, 1, 2, 3, 0, 3], ends=[9, 8])
    # From 0 the jump leads to d = 1 and the long way to d = 3: 5 against 1.25.
    # From 3 the win is 10; state 8 leads nowhere: the farthest state, 1, is at 3, so 10 / 2^4.
    np.testing.assert_allclose(nearness_credit(batch), [-1.875, 0, 0, 4.6875, 1.875, -4.6875])


def test_the_success_of_another_group_does_not_count():
    batch = step_batch([1, 1, 1], [0, 1, 1], [1, 0, 0], [0, 0, 0], ends=[5, 5, 6])
    assert not graphgpo(batch).any()


def test_graphgpo_penalises_a_response_without_an_action_on_the_scale_of_the_outcome():
    batch = step_batch([1, 1], [0, 0], [0, 0], [0, 0], parsed=[True, False])
    np.testing.assert_allclose(nearness_credit(batch, invalid_action_penalty=0.2), [1, -1])


def test_similar_states_are_one_in_the_graph_and_two_groups_of_steps():
    """Texts 0 and 1 are alike. From 3 one rollout goes to 0, one to 2; from 1 a third one wins.

    State 1 is 0 in the graph: d(0) = 1, d(3) = 2, and 2 is unreachable, 3. So from 3 10 / 2 and
    10 / 8. The steps from 0 and 1 are not compared: their texts differ.
    """
    batch = step_batch([2, 1, 1], [0] * 3, [0, 0, 0, 1], [3, 0, 3, 1], ends=[4, 2, 4], texts=TEXTS)
    np.testing.assert_allclose(nearness_credit(batch, anchor="similar"), [1.875, 0, -1.875, 0])
    assert not nearness_credit(batch, anchor="observation").any()


def test_the_last_observation_of_a_success_joins_no_similar_states():
    """Text 0, the end of a success, is like 1 and 2, which are not like each other.

    From 3 one rollout wins and one goes to 2; a third wins from 1. So 2 stays unreachable: 10 and
    10 / 4 from 3. If the texts 1 and 2 were one state, it would be 10 / 2.
    """
    batch = step_batch([1, 1, 1], [0] * 3, [1, 1, 0], [3, 1, 3], ends=[0, 0, 2], texts=TEXTS)
    credit = nearness_credit(batch, anchor="similar", similarity=0.75)
    np.testing.assert_allclose(credit, [3.75, 0, -3.75])


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


def test_of_two_ways_the_better_counts():
    """From 0 one wins a score of 1/2 at once, one goes to 1, where a third wins 1 at once.

    V(1) = 1/2, V(0) = max(1/4, 1/4): the steps from 0 gain 1/4 and 1/4; with gamma 0.9, V(1) = .9
    and V(0) = .81: they gain -.31 and .09.
    """
    batch = step_batch([1, 2, 1], [0] * 3, [0.5, 0, 0, 1], [0, 0, 1, 1], ends=[9, 4, 9])
    equal = step_credit(rewardflow, batch, gamma=0.5)
    np.testing.assert_allclose(equal[:2], [0, 0], atol=1e-12)
    np.testing.assert_allclose(step_credit(rewardflow, batch, gamma=0.9)[:2], [-0.2, 0.2])


def test_circles_end():
    batch = step_batch([5], [0], [0, 0, 0, 0, 1], [0, 1, 0, 1, 0], ends=[1])
    assert np.isfinite(rewardflow(batch, gamma=1.0)).all()


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


def test_each_norm_divides_by_its_own_deviation():
    """From one state one wins and one fails: each of the three parts is 1 / sqrt 2."""
    batch = step_batch([1, 1], [0, 0], [1, 0], [0, 0])
    np.testing.assert_allclose(g2po(batch, epsilon=0.0), [3 * HALF, -3 * HALF])


def test_a_state_is_worth_the_mean_of_all_its_visits():
    """State 1 is seen three times: twice on the way to a win, once in a failure."""
    batch = step_batch([3, 1], [0, 0], [0, 0, 1, 0], [0, 1, 1, 1])
    value = (1 / 4 + 1 / 2 + 0) / 3
    ahead = np.array([value, value, 1, 0])
    gains = ahead - [1 / 8, value, value, value]
    local = np.append(0, ahead[1:] - ahead[1:].mean())
    np.testing.assert_allclose(step_credit(g2po, batch, gamma=0.5), local + gains - gains.mean())


def test_g2po_penalises_a_response_without_an_action_against_its_state_only():
    parsed = [True, False, True]
    batch = step_batch([1, 1, 1], [0] * 3, np.zeros(3), [0, 0, 1], parsed=parsed)
    credit = step_credit(g2po, batch, gamma=0.5, invalid_action_penalty=0.2)
    np.testing.assert_allclose(credit, [0.1, -0.1, 0])


# GAGPO


def test_temporal_differences_alone_by_hand():
    """Rollout 0 visits 0, 1 and wins, rollout 1 visits 0, 2 and fails.

    V(0) = 1/4, V(1) = 1, V(2) = 0: delta = 1/2 - 1/4, 1 - 1 | 0 - 1/4, 0.
    """
    batch = step_batch([2, 2], [0, 0], [0, 1, 0, 0], [0, 1, 0, 2])
    advantages = gagpo(batch, gamma=0.5, gae_lambda=0.0, epsilon=0.0)
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
