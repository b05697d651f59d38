"""GRPO by hand and against the slow version."""

import numpy as np
from hypothesis import given

from tests.algorithms.credit.slow_rules import slow_episode
from tests.algorithms.credit.step_batches import batches, rule, step_batch

grpo = rule("grpo")


def test_one_win_among_four_by_hand():
    """Outcomes 1, 0, 0, 0 have mean 1/4 and, with ddof 1, deviation 1/2."""
    batch = step_batch([2, 1, 3, 1], [0] * 4, [0, 1, 0, 0, 0, 0, 0], np.zeros(7))
    expected = np.repeat([1.5, -0.5, -0.5, -0.5], [2, 1, 3, 1])
    np.testing.assert_allclose(grpo(batch, epsilon=0.0), expected)


def test_long_rollouts_weigh_no_more_than_short_ones():
    short = step_batch([1, 1], [0, 0], [1, 0], np.zeros(2))
    long = step_batch([1, 9], [0, 0], [1] + [0] * 9, np.zeros(10))
    np.testing.assert_array_equal(grpo(long)[:2], grpo(short))


def test_a_rollout_alone_in_its_group_has_no_credit():
    assert not grpo(step_batch([2], [0], [0, 1], [0, 0])).any()


@given(batches(outcomes=(0.0, 0.4, 1.0)))
def test_it_equals_the_slow_version(batch):
    np.testing.assert_allclose(grpo(batch), slow_episode(batch, ddof=1), atol=1e-9)
