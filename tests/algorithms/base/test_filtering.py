"""Rollouts without advantages are left out; equal rewards do not make one."""

from dataclasses import replace

import numpy as np

from tests.algorithms.learner.test_rows import THREE
from trca.algorithms import GRPOConfig
from trca.algorithms.base.crediting import Crediting, teaching, teaching_groups
from trca.algorithms.credit import Credited, bind_credit
from trca.algorithms.rollouts.batch import RolloutBatch
from trca.envs.annotate import NO_OPERATORS
from trca.envs.text_env import DEFAULT_AGENT
from trca.records import DEFAULT_MODULE, Rollout
from trca.records.rollout import Failure

NO_JUDGMENTS = np.zeros(0, dtype=np.uint8)


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


def numbered(batch):
    """Credits only the second of three steps; each token has its number as advantage."""
    return Credited(np.array([0.0, 1.0, 0.0]), token_advantages=np.arange(6.0))


def test_the_tokens_of_a_kept_rollout_keep_their_advantages():
    config = GRPOConfig().training(on_zero_advantage="drop_rollouts")
    rule = bind_credit(f"{__file__}:numbered", {})
    crediting = Crediting(config, rule, {DEFAULT_AGENT: NO_OPERATORS}, lambda rollouts: None)
    rollouts = [
        Rollout("task", "train", "", 0, index, 0, steps=[replace(step, judgments=NO_JUDGMENTS)])
        for index, step in enumerate(THREE)
    ]
    rows, left_out = crediting.rows(crediting.credit(rollouts))
    assert left_out == 2
    assert rows[DEFAULT_MODULE].optional["token_advantages"].tolist() == [2, 3, 4]


def test_groups_that_were_sampled_later_add_up():
    first = RolloutBatch(ROLLOUTS[:2], process_memory_mb=3.0)
    second = RolloutBatch(ROLLOUTS[2:], [Failure(7, "lost", 2, "gone")], process_memory_mb=2.0)
    first.seconds["generation"], second.seconds["generation"] = 2.0, 1.0
    first.add(second)
    assert first.rollouts == ROLLOUTS
    assert [f.group for f in first.failures] == [7]
    assert (first.seconds["generation"], first.process_memory_mb) == (3.0, 3.0)
