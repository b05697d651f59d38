import numpy as np

from tests.algorithms.credit.step_batches import rule, step_batch
from tests.algorithms.learner.test_rows import step
from trca.algorithms import FilteredBCConfig, GRPOConfig
from trca.algorithms.base.crediting import teaching
from trca.algorithms.learner.rows import make_rows
from trca.records import Rollout, StepBatch, assign_advantages

filtered_bc = rule("filtered_bc")


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
    taught = teaching(rollouts, config.on_zero_advantage)
    rows = make_rows(taught, batch(taught), config.aggregation, config.train_malformed)
    np.testing.assert_allclose(rows.weights, [1 / 8, 1 / 8, 1 / 4, 1 / 4, 1 / 4])
