"""ShapedReturn by hand and against the slow version."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.algorithms.credit.slow_rules import slow_normalize, slow_returns, slow_rubric_reward
from tests.algorithms.credit.step_batches import batches, rule, step_batch
from trca.rubric import Budgets

shaped_return = rule("shaped_return")

NONE, TAKEN, WRONG = [0] * 6, [0, 0, 0, 0, 1, 0], [0, 0, 1, 0, 0, 0]
BATCH = step_batch([2, 1], [0, 0], [0, 1, 0], [0, 1, 0], judgments=[WRONG, TAKEN, TAKEN])
"""Each operator weighs 1/2. Rollout 0 wins after an error; rollout 1 fails after a first step."""


def normalised(values):
    return (np.array(values) - np.mean(values)) / np.std(values, ddof=1)


def test_the_sum_of_outcome_and_rubric_by_hand():
    """Lambda 1: 1 + 1/2 against 1/2. Lambda 0 adds the error: 1 against 1/2."""
    both = np.sqrt(0.5) * np.array([1, 1, -1])
    for lambda_ in (0.0, 1.0):
        np.testing.assert_allclose(shaped_return(BATCH, lambda_=lambda_, epsilon=0.0), both)
    heavy = Budgets(invalidity=4.0)  # the error costs 2: -1/2 against 1/2
    credit = shaped_return(BATCH, lambda_=0.0, budgets=heavy, epsilon=0.0)
    np.testing.assert_allclose(credit, -both)


def test_the_return_to_go_by_hand():
    """Lambda 0, gamma 1/2: -1/2 + 3/4, 3/2 | 1/2, compared over all three steps."""
    credit = shaped_return(BATCH, lambda_=0.0, gamma=0.5, return_to_go=True, epsilon=0.0)
    np.testing.assert_allclose(credit, normalised([1 / 4, 3 / 2, 1 / 2]))


def test_a_group_without_success_has_credit_and_a_tie_has_none():
    failed = step_batch([1, 1], [0, 0], [0, 0], [0, 1], judgments=[TAKEN, NONE])
    alike = step_batch([1, 1], [0, 0], [0, 0], [0, 1], judgments=[TAKEN, TAKEN])
    for return_to_go in (False, True):
        assert (np.sign(shaped_return(failed, return_to_go=return_to_go)) == [1, -1]).all()
        assert not shaped_return(alike, return_to_go=return_to_go).any()


@given(
    batches(outcomes=(0.0, 0.4, 1.0)),
    st.sampled_from([0.0, 0.8, 1.0]),
    st.sampled_from([0.5, 0.95, 1.0]),
    st.booleans(),
)
def test_it_equals_the_slow_version(batch, lambda_, gamma, return_to_go):
    budgets = Budgets(evidence=0.5, invalidity=2.0, execution=1.5)
    rewards = batch.reward + slow_rubric_reward(batch, lambda_, budgets)
    if return_to_go:
        values = slow_returns(rewards, batch.rollout, gamma)
        expected = slow_normalize(values, batch.group.tolist(), ddof=1)
    else:
        names = list(dict.fromkeys(batch.rollout.tolist()))
        sums = [rewards[batch.rollout == name].sum() for name in names]
        groups = [batch.group[batch.rollout == name][0] for name in names]
        each = dict(zip(names, slow_normalize(sums, groups, ddof=1), strict=True))
        expected = [each[name] for name in batch.rollout.tolist()]
    fast = shaped_return(
        batch, lambda_=lambda_, gamma=gamma, budgets=budgets, return_to_go=return_to_go
    )
    np.testing.assert_allclose(fast, expected, rtol=0, atol=1e-9)
