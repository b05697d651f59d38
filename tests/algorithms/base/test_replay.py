"""Self-imitation by hand: kept rollouts, time of the replay, and new advantages."""

from dataclasses import replace

import numpy as np
import pytest

from tests.records.test_records import make_step
from trca.algorithms.base.replay import Replay, add_replayed, replay_weight
from trca.algorithms.learner.rows import join_rows, make_rows
from trca.algorithms.settings.groups import WeightingSettings
from trca.records import Rollout

NO_OPERATORS = np.empty(0, dtype=np.int8)


def rollout(outcome, advantage, group=0, index=0, steps=2):
    rewards, none = [0.0] * (steps - 1) + [outcome], np.empty(0, dtype=np.uint8)
    made = Rollout(f"task {index}", "train", "", group, index, policy_version=0)
    made.steps = [make_step(reward=reward, judgments=none) for reward in rewards]
    made.advantages = np.full(steps, advantage)
    return made


FAILURES = [rollout(0, 0.0, group) for group in (1, 2, 3, 4)]
"""Groups that keep the median down."""


def names(rollouts):
    return [(r.group, r.index) for r in rollouts]


def rows_of(rollouts):
    return make_rows(rollouts, WeightingSettings())


def test_what_went_well_comes_back_once_there_is_enough_of_it():
    replay = Replay(size=3, max_age=10)
    replay.keep(0, [rollout(1, 0.5, index=0), rollout(0, -0.5, index=1)])
    assert (len(replay), replay.take(1)) == (1, [])
    replay.keep(1, [rollout(1, 0.5, 7, index=2), rollout(1, 0.1, index=3), rollout(0, -1, index=4)])
    taken = replay.take(2)
    assert names(taken) == [(0, 0), (0, 2), (0, 3)]
    assert (len(replay), replay.take(3)) == (0, [])


def test_it_is_worth_what_it_is_above_the_median_group():
    """Groups of mean outcome 1/2, 0 and then 3/4: the first success was worth 3/4, and now 1/2."""
    replay = Replay(size=2, max_age=10)
    replay.keep(0, [rollout(1, 0.5, 0, 0), rollout(0, -0.5, 0, 1), rollout(0, 0.2, 1, 0)])
    replay.keep(1, [rollout(1, 0.5, 0, 0), rollout(0.5, 0.1, 0, 1)])
    taken = replay.take(2)
    assert [r.advantages.tolist() for r in taken] == [[0.5, 0.5], [0.5, 0.5]]


def test_credit_without_an_outcome_takes_no_place():
    replay = Replay(size=2, max_age=10)
    replay.keep(0, [rollout(0, 2.0, index=0), rollout(1, -0.1, index=1), *FAILURES])
    assert len(replay) == 0


def test_where_all_succeed_nothing_is_worth_imitating():
    replay = Replay(size=2, max_age=10)
    replay.keep(0, [rollout(1, 0.1, index=0), rollout(1, 0.1, index=1)])
    assert replay.take(1) == []
    assert len(replay) == 0


def test_what_was_good_once_is_not_imitated_when_most_groups_are_as_good():
    replay = Replay(size=2, max_age=10)
    replay.keep(0, [rollout(1, 0.5, index=0), rollout(1, 0.5, index=1), *FAILURES[:2]])
    replay.keep(1, [rollout(1, 0.0, group) for group in range(4)])
    assert len(replay) == 2
    assert replay.take(2) == []


def test_a_rollout_gets_too_old():
    replay = Replay(size=2, max_age=2)
    replay.keep(0, [rollout(1, 0.5, index=0), *FAILURES])
    replay.keep(1, [rollout(1, 0.5, index=1)])
    assert names(replay.take(3)) == []
    assert len(replay) == 1
    replay.keep(3, [rollout(1, 0.5, index=2)])
    assert names(replay.take(3)) == [(0, 1), (0, 2)]


def test_the_newest_are_kept():
    replay = Replay(size=2, max_age=10)
    replay.keep(
        0, [rollout(1, 0.5, index=k) for k in range(3)] + [rollout(0, 0, 1), rollout(0, 0, 2)]
    )
    assert names(replay.take(1)) == [(0, 1), (0, 2)]


def test_it_goes_on_from_its_state():
    one, other = Replay(3, 10), Replay(3, 10)
    one.keep(4, [*(rollout(1, 0.5, index=k) for k in range(3)), *FAILURES])
    other.set_state(one.get_state())
    taken, again = one.take(5), other.take(5)
    assert names(taken) == names(again) == [(0, 0), (0, 1), (0, 2)]
    for mine, theirs in zip(taken, again, strict=True):
        np.testing.assert_array_equal(mine.advantages, theirs.advantages)
        np.testing.assert_array_equal(mine.steps[0].response_ids, theirs.steps[0].response_ids)


def test_the_weight_rises_by_a_cosine():
    assert replay_weight(0, 0.8, ramp=0) == 0.8
    assert [replay_weight(k, 0.8, ramp=4) for k in (0, 2, 4, 9)] == pytest.approx(
        [0, 0.4, 0.8, 0.8]
    )


def test_replayed_rollouts_count_alike_and_together_as_much_as_their_weight():
    """Two replayed rollouts of 1 and 3 steps and a fresh rollout of 2 steps, weight 1/2."""
    fresh = [rollout(0, -1, steps=2)]
    replayed = [rollout(1, 0.5, 0, 0, steps=1), rollout(1, 0.5, 0, 1, steps=3)]
    rows = add_replayed(rows_of(fresh), replayed, 0.5, WeightingSettings())
    np.testing.assert_allclose(rows.weights, [1 / 2] * 2 + [1 / 4] + [1 / 12] * 3)
    np.testing.assert_allclose(rows.advantages, [-1, -1, 0.5, 0.5, 0.5, 0.5])
    assert rows.replayed.tolist() == [False] * 2 + [True] * 4
    assert (rows.total, rows.number.tolist()) == (6, list(range(6)))


def test_joined_rows_are_cut_as_any_others():
    rollouts = [rollout(0, -1, index=k, steps=k + 1) for k in range(4)]
    whole = rows_of(rollouts)
    joined = join_rows(rows_of(rollouts[:1]), rows_of(rollouts[1:]))
    np.testing.assert_array_equal(joined.tokens, whole.tokens)
    np.testing.assert_array_equal(joined.number, whole.number)
    marked = replace(joined, replayed=joined.number % 2 == 0)
    for shard in marked.shards(3):
        assert shard.replayed.tolist() == (shard.number % 2 == 0).tolist()
