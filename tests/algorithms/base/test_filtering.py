"""Rollouts without advantages are left out; equal rewards do not make one."""

import numpy as np

from trca.algorithms.base.filtering import teaching, teaching_groups
from trca.algorithms.rollouts.batch import RolloutBatch
from trca.records import Rollout
from trca.records.failures import Failure


def rollout(group, advantages, index=0):
    made = Rollout("task", "train", "", group, index, policy_version=0)
    made.advantages = np.array(advantages)
    return made


ROLLOUTS = [
    rollout(0, [0.0, 0.0], 0),
    rollout(0, [0.0, 1e-3], 1),
    rollout(3, [0.0, 1e-7], 0),
    rollout(3, [-1e-7], 1),
    rollout(5, [-0.5, 0.0], 0),
]


def test_a_group_without_advantages_is_left_out_whole():
    assert teaching_groups(ROLLOUTS) == {0, 5}
    kept = teaching(ROLLOUTS, "drop_groups")
    assert [(r.group, r.index) for r in kept] == [(0, 0), (0, 1), (5, 0)]


def test_a_rollout_without_advantages_is_left_out_alone():
    kept = teaching(ROLLOUTS, "drop_rollouts")
    assert [(r.group, r.index) for r in kept] == [(0, 1), (5, 0)]


def test_all_are_kept_by_default():
    assert teaching(ROLLOUTS, "keep") == ROLLOUTS


def test_groups_that_were_sampled_later_add_up():
    first = RolloutBatch(ROLLOUTS[:2], process_memory_mb=3.0)
    second = RolloutBatch(ROLLOUTS[2:], [Failure(7, "lost", 2, "gone")], process_memory_mb=2.0)
    first.seconds["generation"], second.seconds["generation"] = 2.0, 1.0
    first.add_later(second)
    assert first.rollouts == ROLLOUTS
    assert [f.group for f in first.failures] == [7]
    assert (first.seconds["generation"], first.process_memory_mb) == (3.0, 3.0)
