"""TRCA by hand, against the slow version, and Propositions 1 to 4 of the paper on the rule."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.algorithms.credit.slow_rules import slow_rubric_reward, slow_trca
from tests.algorithms.credit.step_batches import CATEGORIES, batches, step_batch, take_rollouts
from trca.algorithms.credit import CREDIT_RULES
from trca.algorithms.credit.arithmetic import discounted_returns
from trca.algorithms.trca.credit import failed_share
from trca.rubric.rewards import Budgets, breakthrough_reward, foundational_reward, trca_reward

trca = CREDIT_RULES.get("trca")
ALL = tuple(Budgets.model_fields)

budgets = st.builds(Budgets, **dict.fromkeys(Budgets.model_fields, st.floats(0.1, 10)))
unit = st.floats(0, 1)


def fired(*items):
    return np.isin(np.arange(len(CATEGORIES)), items).astype(np.uint8)


def test_two_rollouts_by_hand():
    """The first finds evidence and wins, the second is refused twice; both start alike."""
    batch = step_batch(
        lengths=[2, 2],
        groups=[0, 0],
        rewards=[0, 1, 0, 0],
        contexts=[0, 1, 0, 2],
        judgments=[fired(0), fired(4), fired(2), fired(2)],
    )
    # With lambda 1/2 and budgets 2, an item weighs 1: r^TRCA = 1, 1 | -1/2, -1/2.
    # R = 1 + 2/2, 2 | -1/2 - 1/4, -1/2 under gamma 1/2.
    # A^E: outcomes 1, 0 have mean 1/2 and deviation 1/2. A^S: context 0 holds 2 and -3/4, so that
    # mean 5/8 and deviation 11/8; the other contexts hold one step.
    advantages = trca(
        batch,
        gamma=0.5,
        lambda_=0.5,
        budgets=Budgets(evidence=2, invalidity=2, execution=2),
        epsilon=0.0,
    )
    np.testing.assert_allclose(advantages, [2, 1, -2, -1])


def test_epsilon_joins_the_deviation():
    batch = step_batch([1, 1], [0, 0], [1, 0], [0, 1])
    expected = 0.5 / (0.5 + 1e-6)
    np.testing.assert_allclose(trca(batch), [expected, -expected], rtol=1e-15)


def test_budgets_may_come_as_a_mapping():
    batch = step_batch([1, 1], [0, 0], [0, 0], [0, 0], [fired(0), fired(2, 4)])
    given_mapping = trca(batch, budgets={"evidence": 3.0})
    np.testing.assert_array_equal(given_mapping, trca(batch, budgets=Budgets(evidence=3.0)))


def test_an_ablation_leaves_the_other_reward_its_weight():
    """Without A^E and discount, the rows of the only context rank by 0.2 r^F or by 0.8 r^B."""
    judgments = [fired(0), fired(0), fired(2)]
    batch = step_batch([2, 1], [0, 0], np.zeros(3), np.zeros(3), judgments)
    options = {"gamma": 0.0, "epsilon": 1.0}  # makes the scale of the rewards show
    rewards = {"without_foundational": [0.4, 0, 0], "without_breakthrough": [0.1, 0.1, -0.1]}
    for ablation, reward in rewards.items():
        expected = (reward - np.mean(reward)) / (np.std(reward) + 1.0)
        np.testing.assert_allclose(trca(batch, ablation=ablation, **options), expected)
    with pytest.raises(ValueError, match="unknown ablation 'no_rubric'"):
        trca(batch, ablation="no_rubric")


def test_an_outcome_may_weigh_more_beside_the_rubric():
    """In one context: fires and wins, fires, wins. Without discount R is c + 0.5, 0.5, c."""
    batch = step_batch([1, 1, 1], [0, 0, 0], [1, 0, 1], [0, 0, 0], [fired(0), fired(0), fired()])
    outcome = np.array([1, 0, 1])
    for scale, returns in ((1, [1.5, 0.5, 1]), (4, [4.5, 0.5, 4]), (0, [0.5, 0.5, 0])):
        expected = (outcome - 2 / 3) / (np.std(outcome) + 1.0)
        expected += (returns - np.mean(returns)) / (np.std(returns) + 1.0)
        np.testing.assert_allclose(trca(batch, outcome_scale=scale, epsilon=1.0), expected)
    np.testing.assert_allclose(
        trca(batch, outcome_scale=10.0), trca(batch, budgets=dict.fromkeys(ALL, 0.1)), rtol=1e-4
    )


def test_budgets_may_shrink_to_the_share_of_the_group_that_failed():
    """Two groups of two; one rollout of the first wins, so its rubric counts half."""
    judgments = [fired(0), fired(), fired(0), fired()]
    batch = step_batch([1, 1, 1, 1], [0, 0, 5, 5], [0, 1, 0, 0], [0, 0, 0, 0], judgments)
    whole = trca(batch, epsilon=1.0)
    half = trca(batch, budgets=dict.fromkeys(ALL, 0.5), epsilon=1.0)
    shrunk = trca(batch, budget_schedule="group_success", epsilon=1.0)
    np.testing.assert_allclose(shrunk[:2], half[:2])
    np.testing.assert_allclose(shrunk[2:], whole[2:])
    assert not np.allclose(half, whole)
    np.testing.assert_allclose(failed_share(batch), [0.5, 0.5, 1, 1])
    with pytest.raises(ValueError, match="unknown budget_schedule 'linear'"):
        trca(batch, budget_schedule="linear")


def test_where_all_succeed_a_shrunk_rubric_is_silent():
    batch = step_batch([1, 2], [0, 0], [1, 0, 1], [0, 0, 1], [fired(0), fired(4), fired(2)])
    silent = trca(batch, budgets=dict.fromkeys(ALL, 0.0))
    np.testing.assert_array_equal(trca(batch, budget_schedule="group_success"), silent)


@given(
    batches(),
    unit,
    unit,
    budgets,
    st.sampled_from(["none", "without_foundational", "without_breakthrough"]),
    st.floats(0, 10),
    st.sampled_from(["constant", "group_success"]),
)
def test_it_equals_the_slow_version(batch, gamma, lambda_, budgets, ablation, scale, schedule):
    fast = trca(
        batch,
        gamma=gamma,
        lambda_=lambda_,
        budgets=budgets,
        ablation=ablation,
        outcome_scale=scale,
        budget_schedule=schedule,
    )
    slow = slow_trca(batch, gamma, lambda_, budgets, ablation, scale, schedule)
    np.testing.assert_allclose(fast, slow, rtol=1e-6, atol=1e-6)


@given(batches(), st.randoms())
def test_the_order_of_rollouts_does_not_matter(batch, random):
    order = list(dict.fromkeys(batch.rollout.tolist()))
    random.shuffle(order)
    shuffled, rows = take_rollouts(batch, order)
    np.testing.assert_allclose(trca(shuffled), trca(batch)[rows], atol=1e-9)


@given(batches())
def test_groups_do_not_see_each_other(batch):
    advantages = trca(batch)
    for group in np.unique(batch.group):
        alone, rows = take_rollouts(batch, np.unique(batch.rollout[batch.group == group]))
        np.testing.assert_allclose(trca(alone), advantages[rows], atol=1e-9)


@given(batches())
def test_a_truncated_episode_is_an_episode_like_any_other(batch):
    cut = replace(batch, truncated=batch.terminated, terminated=batch.truncated)
    np.testing.assert_array_equal(trca(cut), trca(batch))


@given(batches(), unit, budgets)
def test_proposition_1_returns_are_bounded_by_the_budgets(batch, lambda_, budgets):
    """Breakthrough adds at most its budget to a return, however long the rollout is."""
    zero = replace(batch, reward=np.zeros(len(batch)))
    positive = budgets.evidence + budgets.execution
    r_f = foundational_reward(zero.judgments, CATEGORIES, budgets)
    r_b = breakthrough_reward(zero.judgments, zero.rollout, CATEGORIES, budgets)
    reward = trca_reward(r_f, r_b, lambda_)
    assert (reward <= positive + 1e-9).all()
    assert (reward >= -(1 - lambda_) * budgets.invalidity - 1e-9).all()
    returns = discounted_returns(r_b, zero.rollout, 1.0)
    assert ((returns >= 0) & (returns <= positive + 1e-9)).all()


@given(st.floats(0.01, 1), unit, budgets, st.sampled_from([0, 1, 4, 5]))
def test_proposition_2_new_coverage_is_preferred_to_a_repetition(lambda_, gamma, budgets, item):
    """Two rollouts end with the same judgments in one context; for one of them they are new."""
    batch = step_batch(
        lengths=[2, 2],
        groups=[0, 0],
        rewards=np.zeros(4),
        contexts=[0, 1, 2, 1],
        judgments=[fired(), fired(item), fired(item), fired(item)],
    )
    advantages = trca(batch, gamma=gamma, lambda_=lambda_, budgets=budgets)
    assert advantages[1] > 0 > advantages[3]


@given(batches(outcomes=(0.0,)), unit, unit, budgets, st.sampled_from([0.0, 1.0]))
def test_proposition_3_equal_outcomes_still_rank_steps(batch, gamma, lambda_, budgets, outcome):
    """Without outcome credit, a context whose returns differ has advantages of both signs."""
    reward = np.where(batch.terminated, outcome, 0.0)
    batch = replace(batch, reward=reward)
    advantages = trca(batch, gamma=gamma, lambda_=lambda_, budgets=budgets)
    assert not CREDIT_RULES.get("grpo")(batch).any()
    returns = discounted_returns(
        reward + slow_rubric_reward(batch, lambda_, budgets), batch.rollout, gamma
    )
    for group, context in set(zip(batch.group.tolist(), batch.context.tolist(), strict=True)):
        rows = (batch.group == group) & (batch.context == context)
        spread = np.ptp(returns[rows])
        assume(spread == 0 or spread > 1e-9)
        if spread:
            assert advantages[rows].max() > 0 > advantages[rows].min()
        else:
            assert not advantages[rows].any()


def test_a_group_without_rubric_or_outcome_has_no_credit():
    assert not trca(step_batch([3, 2], [0, 0], np.zeros(5), np.zeros(5))).any()


@given(
    st.lists(st.floats(0.05, 0.95), min_size=3, max_size=3),
    st.lists(st.lists(st.integers(0, 1), min_size=6, max_size=6), min_size=4, max_size=4),
    unit,
    budgets,
)
def test_proposition_4_the_local_feedback_does_not_vary(chances, judgments, lambda_, budgets):
    """After a fixed transition, all eight ways the episode can go on are enumerated.

    Three more steps do either of two things, by independent chances; success needs all three. The
    reward of the fixed transition is the same on every way, while the outcome varies by p (1 - p).
    """
    quiet = [0] * len(CATEGORIES)
    rewards, outcomes, weights = [], [], []
    for way in itertools.product([0, 1], repeat=3):
        rows = [judgments[0], *(judgments[k + 1] if way[k] else quiet for k in range(3))]
        rows = np.array(rows, dtype=np.uint8)
        r_f = foundational_reward(rows, CATEGORIES, budgets)
        r_b = breakthrough_reward(rows, np.zeros(4, dtype=np.int64), CATEGORIES, budgets)
        rewards.append(trca_reward(r_f, r_b, lambda_)[0])
        outcomes.append(float(all(way)))
        chance = [p if done else 1 - p for p, done in zip(chances, way, strict=True)]
        weights.append(np.prod(chance))

    def variance(values):
        mean = np.average(values, weights=weights)
        return np.average((np.array(values) - mean) ** 2, weights=weights)

    success = np.prod(chances)
    assert np.ptp(rewards) <= 1e-12
    assert variance(outcomes) == pytest.approx(success * (1 - success))
    assert variance(rewards) < variance(outcomes)
