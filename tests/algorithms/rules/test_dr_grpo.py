"""Dr. GRPO by hand and against the slow version."""

import numpy as np
from hypothesis import given

from tests.algorithms.credit.slow_rules import slow_episode
from tests.algorithms.credit.step_batches import batches, rule, step_batch
from trca.algorithms import DrGRPOConfig, GRPOConfig

dr_grpo = rule("dr_grpo")


def test_one_win_among_four_by_hand():
    batch = step_batch([2, 1, 3, 1], [0] * 4, [0, 1, 0, 0, 0, 0, 0], np.zeros(7))
    np.testing.assert_allclose(dr_grpo(batch), np.repeat([0.75, -0.25, -0.25, -0.25], [2, 1, 3, 1]))


def test_an_even_group_and_a_hard_one_keep_their_scale():
    """GRPO would give the winners 0.7 and 1.5; here they have 1/2 and 3/4."""
    batch = step_batch([1] * 6, [0, 0, 1, 1, 1, 1], [1, 0, 1, 0, 0, 0], np.zeros(6))
    np.testing.assert_allclose(dr_grpo(batch), [0.5, -0.5, 0.75, -0.25, -0.25, -0.25])


def test_ties_and_a_rollout_alone_have_no_credit():
    assert not dr_grpo(step_batch([2, 1], [0, 0], [0, 1, 1], np.zeros(3))).any()
    assert not dr_grpo(step_batch([2], [0], [0, 1], [0, 0])).any()
    assert not dr_grpo(step_batch([2, 2], [0, 0], np.zeros(4), np.zeros(4))).any()


@given(batches(outcomes=(0.0, 0.4, 1.0)))
def test_it_equals_the_slow_version(batch):
    slow = slow_episode(batch, ddof=0, divide=False)
    np.testing.assert_allclose(dr_grpo(batch), slow, atol=1e-9)


def test_its_loss_divides_by_a_constant_and_grpos_does_not():
    assert (DrGRPOConfig().aggregation, GRPOConfig().aggregation) == ("rollout_sum", "rollout_mean")
