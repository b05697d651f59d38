"""TRCA by hand, against the slow version, and what follows of Proposition 2 for the rule."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.algorithms.credit.slow_rules import slow_trca
from tests.algorithms.credit.step_batches import CATEGORIES, batches, cut_off, rule, step_batch
from trca.algorithms.rules.trca import failed_share
from trca.rubric.rewards import Budgets

trca = rule("trca")
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
    # mean 5/8 and deviation 11/8; further contexts hold one step.
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
    with pytest.raises(ValueError, match=r"ablation\n.*Input should be 'none'"):
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
    with pytest.raises(ValueError, match=r"budget_schedule\n.*Input should be 'constant'"):
        trca(batch, budget_schedule="linear")


def test_stages_by_hand():
    """The first takes, places and wins; the second sees, then takes, and never places."""
    batch = step_batch(
        lengths=[2, 2],
        groups=[0, 0],
        rewards=[0, 1, 0, 0],
        contexts=[0, 1, 2, 3],  # a context each: with contexts A^S is 0
        judgments=[fired(4), fired(5), fired(0), fired(4)],
    )
    # With lambda 1 and budgets 2, an item weighs 1. Stage 0 has returns 1 | 1 + 1/2, 1 under gamma
    # 1/2: deviations -1/6 | 1/3, -1/6 over the standard deviation 1/sqrt(18). Stage 1 has one step.
    settings = {"gamma": 0.5, "lambda_": 1.0, "budgets": dict.fromkeys(ALL, 2.0), "epsilon": 0.0}
    root = np.sqrt(0.5)
    expected = [1 - root, 1, -1 + 2 * root, -1 - root]
    np.testing.assert_allclose(trca(batch, step_group="stage", **settings), expected)
    np.testing.assert_allclose(trca(batch, **settings), [1, 1, -1, -1])


@given(
    batches(),
    unit,
    unit,
    budgets,
    st.sampled_from(["none", "without_foundational", "without_breakthrough"]),
    st.floats(0, 10),
    st.sampled_from(["constant", "group_success"]),
    st.sampled_from(["context", "stage"]),
)
def test_it_equals_the_slow_version(
    batch, gamma, lambda_, budgets, ablation, scale, schedule, step_group
):
    fast = trca(
        batch,
        gamma=gamma,
        lambda_=lambda_,
        budgets=budgets,
        ablation=ablation,
        outcome_scale=scale,
        budget_schedule=schedule,
        step_group=step_group,
    )
    slow = slow_trca(batch, gamma, lambda_, budgets, ablation, scale, schedule, step_group)
    np.testing.assert_allclose(fast, slow, rtol=1e-6, atol=1e-6)


@given(batches())
def test_a_truncated_episode_is_an_episode_like_any_other(batch):
    np.testing.assert_array_equal(trca(cut_off(batch)), trca(batch))


@given(st.floats(0.01, 1), unit, budgets, st.sampled_from([0, 1, 4, 5]))
def test_new_coverage_is_preferred_to_a_repetition(lambda_, gamma, budgets, item):
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


def test_a_group_without_rubric_or_outcome_has_no_credit():
    assert not trca(step_batch([3, 2], [0, 0], np.zeros(5), np.zeros(5))).any()
