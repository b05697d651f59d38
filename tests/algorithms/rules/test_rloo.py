"""RLOO by hand and against the slow version."""

import numpy as np
from hypothesis import given

from tests.algorithms.credit.slow_rules import slow_rloo
from tests.algorithms.credit.step_batches import batches, rule, step_batch

rloo = rule("rloo")


def test_one_win_among_four_by_hand():
    """The winner is 1 above the mean of the rest; a loser is 1/3 below the mean of 1, 0 and 0."""
    batch = step_batch([2, 1, 3, 1], [0] * 4, [0, 1, 0, 0, 0, 0, 0], np.zeros(7))
    expected = np.repeat([1, -1 / 3, -1 / 3, -1 / 3], [2, 1, 3, 1])
    np.testing.assert_allclose(rloo(batch), expected)


def test_each_group_has_its_own_number_of_rollouts():
    batch = step_batch([1, 1, 1, 1, 1], [0, 7, 0, 7, 7], [1, 1, 0, 0, 0], np.zeros(5))
    np.testing.assert_allclose(rloo(batch), [1, 1, -1, -1 / 2, -1 / 2])


def test_ties_and_a_rollout_alone_have_no_credit():
    assert not rloo(step_batch([2, 1], [0, 0], [0, 1, 1], np.zeros(3))).any()
    assert not rloo(step_batch([2], [0], [0, 1], [0, 0])).any()
    assert not rloo(step_batch([2, 2], [0, 0], np.zeros(4), np.zeros(4))).any()


@given(batches(outcomes=(0.0, 0.4, 1.0)))
def test_it_equals_the_slow_version(batch):
    np.testing.assert_allclose(rloo(batch), slow_rloo(batch), atol=1e-9)
