"""Rules that credit outcomes, or outcomes and rubric rewards, by hand and against slow versions."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.algorithms.credit.slow_rules import (
    slow_episode,
    slow_normalize,
    slow_reinforce_plus_plus,
    slow_returns,
    slow_rloo,
    slow_rubric_reward,
)
from tests.algorithms.credit.step_batches import batches, rule, step_batch
from tests.algorithms.learner.test_rows import step
from trca.algorithms import DrGRPOConfig, FilteredBCConfig, GRPOConfig, ReinforcePlusPlusConfig
from trca.algorithms.base.crediting import teaching
from trca.algorithms.learner.rows import make_rows
from trca.records import Rollout, StepBatch, assign_advantages
from trca.rubric import Budgets

grpo, dr_grpo, rloo = rule("grpo"), rule("dr_grpo"), rule("rloo")
reinforce, shaped_return = rule("reinforce_plus_plus"), rule("shaped_return")
filtered_bc, turn_credit = rule("filtered_bc"), rule("turn_credit")


@pytest.mark.parametrize(
    ("credit", "of_four"),
    [
        (lambda batch: grpo(batch, epsilon=0.0), [1.5, -0.5, -0.5, -0.5]),
        (dr_grpo, [0.75, -0.25, -0.25, -0.25]),
        (rloo, [1, -1 / 3, -1 / 3, -1 / 3]),
    ],
)
def test_one_win_among_four_by_hand(credit, of_four):
    """Outcomes 1, 0, 0, 0 have mean 1/4 and, with ddof 1, deviation 1/2.

    In RLOO the winner is 1 above the mean of the rest, a loser 1/3 below the mean of 1, 0 and 0.
    """
    lengths = [2, 1, 3, 1]
    batch = step_batch(lengths, [0] * 4, [0, 1, 0, 0, 0, 0, 0], np.zeros(7))
    np.testing.assert_allclose(credit(batch), np.repeat(of_four, lengths))


@pytest.mark.parametrize(
    ("credit", "slow"),
    [
        (grpo, lambda batch: slow_episode(batch, ddof=1)),
        (dr_grpo, lambda batch: slow_episode(batch, ddof=0, divide=False)),
        (rloo, slow_rloo),
    ],
)
@given(batches(outcomes=(0.0, 0.4, 1.0)))
def test_it_equals_the_slow_version(credit, slow, batch):
    np.testing.assert_allclose(credit(batch), slow(batch), atol=1e-9)


def test_algorithms_have_their_own_defaults():
    assert (DrGRPOConfig().aggregation, GRPOConfig().aggregation) == ("rollout_sum", "rollout_mean")
    assert (ReinforcePlusPlusConfig().gamma, ReinforcePlusPlusConfig().kl_kind) == (1.0, "k2")
    for config, expected in (
        (FilteredBCConfig(), ("log_likelihood", "drop_rollouts")),
        (GRPOConfig(), ("clipped", "keep")),
    ):
        assert (config.policy_loss, config.on_zero_advantage) == expected


# REINFORCE++


def test_returns_are_normalised_over_all_steps_of_the_batch_by_hand():
    """Step returns 1, 1 of one group and 0, 0 of another: mean 1/2, variance 1/3 with ddof 1."""
    batch = step_batch([2, 2], [0, 1], [0, 1, 0, 0], np.zeros(4))
    expected = np.sqrt(3) / 2 * np.array([1, 1, -1, -1])
    np.testing.assert_allclose(reinforce(batch, epsilon=0.0), expected)


def test_the_baseline_form_subtracts_the_groups_mean_first():
    """Group 0 has outcomes 1, 0; group 1 has 1, 1, without a difference: 1/2, -1/2, 0, 0."""
    batch = step_batch([1, 1, 1, 1], [0, 0, 1, 1], [1, 0, 1, 1], np.zeros(4))
    expected = np.sqrt(6) / 2 * np.array([1, -1, 0, 0])
    advantages = reinforce(batch, group_baseline=True, epsilon=0.0)
    np.testing.assert_allclose(advantages, expected, atol=1e-12)
    assert reinforce(batch)[3] > 0


@given(batches(outcomes=(0.0, 0.4, 1.0)), st.floats(0, 1), st.booleans())
def test_reinforce_plus_plus_equals_the_slow_version(batch, gamma, baseline):
    fast = reinforce(batch, gamma=gamma, group_baseline=baseline)
    slow = slow_reinforce_plus_plus(batch, gamma, baseline)
    np.testing.assert_allclose(fast, slow, rtol=1e-5, atol=1e-5)


def test_a_group_of_one_is_too_small_for_the_baseline_alone():
    plain = ReinforcePlusPlusConfig.parameters_class(group_size=1)
    assert plain.too_small_group() == ""
    baseline = plain.model_copy(update={"group_baseline": True})
    assert baseline.too_small_group().startswith("group_size is 1")


# Filtered behaviour cloning


def test_every_step_of_a_success_counts_one_and_no_other():
    batch = step_batch([2, 1, 3], [0, 0, 4], [0, 1, 0, 0, 0, 1], np.zeros(6))
    np.testing.assert_array_equal(filtered_bc(batch), [1, 1, 0, 1, 1, 1])
    rewarded = step_batch([1, 1], [0, 0], [0.5, 0.0], [0, 0])
    rewarded.won[:] = [False, True]  # success counts, not the reward
    np.testing.assert_array_equal(filtered_bc(rewarded), [0, 1])


def test_groups_with_a_success_count_alike_and_so_do_the_successes_of_each():
    def rollout(group, index, length, won):
        steps = [step([1], [2], [True])] * length
        return Rollout("t", "train", "Any", group, index, 0, steps=steps, won=won)

    def batch(rollouts):
        return StepBatch.from_rollouts(rollouts, np.array([0, 1, 2], dtype=np.int8))

    config = FilteredBCConfig()
    rollouts = [
        *(rollout(0, 0, 2, True), rollout(0, 1, 3, False), rollout(0, 2, 1, True)),
        *(rollout(1, 0, 2, False), rollout(1, 1, 2, False)),
        *(rollout(2, 0, 3, False), rollout(2, 1, 2, True)),
    ]
    assign_advantages(rollouts, filtered_bc(batch(rollouts)))
    trained = teaching(rollouts, config.on_zero_advantage)
    rows = make_rows(trained, config.settings)
    np.testing.assert_allclose(rows.weights, [1 / 8, 1 / 8, 1 / 4, 1 / 4, 1 / 4])


# ShapedReturn

TAKEN, WRONG = [0, 0, 0, 0, 1, 0], [0, 0, 1, 0, 0, 0]
BATCH = step_batch([2, 1], [0, 0], [0, 1, 0], [0, 1, 0], judgments=[WRONG, TAKEN, TAKEN])
"""Each operator weighs 1/2. Rollout 0 wins after an error; rollout 1 fails after a first step."""


def test_the_sum_of_outcome_and_rubric_by_hand():
    """Lambda 1: 1 + 1/2 against 1/2. Lambda 0 adds the error: 1 against 1/2."""
    both = np.sqrt(0.5) * np.array([1, 1, -1])
    for lambda_ in (0.0, 1.0):
        np.testing.assert_allclose(shaped_return(BATCH, lambda_=lambda_, epsilon=0.0), both)
    heavy = Budgets(invalidity=4.0)  # the error costs 2: -1/2 against 1/2
    credit = shaped_return(BATCH, lambda_=0.0, budgets=heavy, epsilon=0.0)
    np.testing.assert_allclose(credit, -both)


@given(
    batches(outcomes=(0.0, 0.4, 1.0)),
    st.sampled_from([0.0, 0.8, 1.0]),
    st.sampled_from([0.5, 0.95, 1.0]),
    st.booleans(),
)
def test_shaped_return_equals_the_slow_version(batch, lambda_, gamma, return_to_go):
    budgets = Budgets(evidence=0.5, invalidity=2.0, execution=1.5)
    shaped = replace(batch, reward=batch.reward + slow_rubric_reward(batch, lambda_, budgets))
    if return_to_go:
        values = slow_returns(shaped.reward, batch.rollout, gamma)
        expected = slow_normalize(values, batch.group.tolist(), ddof=1)
    else:
        expected = slow_episode(shaped, ddof=1)
    settings = {"lambda_": lambda_, "gamma": gamma, "budgets": budgets}
    fast = shaped_return(batch, return_to_go=return_to_go, **settings)
    np.testing.assert_allclose(fast, expected, rtol=0, atol=1e-9)


# TurnCredit


def test_the_progress_of_a_turn_goes_to_the_turns_before_it_by_hand():
    """Rollout 0 wins, and its last two turns each cover an operator of weight 1/2.

    With gamma 1/2 the turns share each progress by 1 : 2 and 1 : 2 : 4.
    """
    none = [0] * 6
    judgments = [none, TAKEN, [1, 0, 0, 0, 1, 0], none]
    batch = step_batch([3, 1], [0, 0], [0, 0, 1, 0], np.zeros(4), judgments=judgments)
    shares = np.array([1 / 3 + 1 / 7, 2 / 3 + 2 / 7, 4 / 7]) / 2
    level = (1 + 1) / 2
    credit = turn_credit(batch, gamma=0.5, turn_weight=3.0)
    np.testing.assert_allclose(credit, [*(level + 3 * (shares - shares.mean())), -level])


@given(
    batches(outcomes=(0.0, 0.4, 1.0)),
    st.sampled_from([0.0, 0.5, 0.9, 1.0]),
    st.sampled_from([0.0, 1.0, 2.5]),
)
def test_turn_credit_equals_the_slow_version(batch, gamma, turn_weight):
    budgets = Budgets(evidence=0.5, invalidity=2.0, execution=1.5)
    progress = slow_rubric_reward(batch, 1.0, budgets)
    expected = np.zeros(len(batch))
    for group in set(batch.group.tolist()):
        members = {n: [] for n in batch.rollout[batch.group == group].tolist()}
        for row, number in enumerate(batch.rollout.tolist()):
            if number in members:
                members[number].append(row)
        totals = {n: sum(batch.reward[rows] + progress[rows]) for n, rows in members.items()}
        for number, rows in members.items():
            credit = [0.0] * len(rows)
            for turn, row in enumerate(rows):
                weights = [gamma ** (turn - before) for before in range(turn + 1)]
                for before, weight in enumerate(weights):
                    credit[before] += progress[row] * weight / sum(weights)
            level = totals[number] - sum(totals.values()) / len(totals)
            for row, each in zip(rows, credit, strict=True):
                expected[row] = level + turn_weight * (each - sum(credit) / len(credit))
    credit = turn_credit(batch, gamma=gamma, turn_weight=turn_weight, budgets=budgets)
    np.testing.assert_allclose(credit, expected, rtol=0, atol=1e-9)


def test_without_a_weight_turn_credit_is_the_level_of_the_rollout():
    credit = turn_credit(BATCH, turn_weight=0.0)
    np.testing.assert_allclose(credit, [1 / 2, 1 / 2, -1 / 2])
