import numpy as np

from tests.algorithms.credit.step_batches import step_batch
from trca.algorithms import FilteredBCConfig, GRPOConfig
from trca.algorithms.credit import CREDIT_RULES

filtered_bc = CREDIT_RULES.get("filtered_bc")


def test_every_step_of_a_success_counts_one_and_no_other():
    batch = step_batch([2, 1, 3], [0, 0, 4], [0, 1, 0, 0, 0, 1], np.zeros(6))
    np.testing.assert_array_equal(filtered_bc(batch), [1, 1, 0, 1, 1, 1])


def test_success_counts_and_not_reward():
    batch = step_batch([1, 1], [0, 0], [0.5, 0.0], [0, 0])
    batch.won[:] = [False, True]
    np.testing.assert_array_equal(filtered_bc(batch), [0, 1])


def test_it_has_the_loss_of_imitation_and_leaves_failures_out():
    config, other = FilteredBCConfig(), GRPOConfig()
    assert (config.policy_loss, config.on_zero_advantage) == ("log_likelihood", "drop_rollouts")
    assert (other.policy_loss, other.on_zero_advantage) == ("clipped", "keep")
