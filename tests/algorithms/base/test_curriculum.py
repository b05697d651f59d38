"""Tasks by their success so far: by hand, and as often as their weights say."""

from collections import Counter

import numpy as np
import pytest

from trca.algorithms.base.curriculum import Curriculum
from trca.envs.panel import Panel
from trca.records import Rollout

PANEL = Panel("Toy", "train", ("a", "b", "c", "d"))


def play(curriculum, task, wins, losses, group=0):
    curriculum.learn(
        [
            Rollout(task, "train", "", group, k, policy_version=0, won=k < wins)
            for k in range(wins + losses)
        ]
    )


def test_weights_by_hand():
    curriculum = Curriculum(PANEL, 1.0, seed=0)
    play(curriculum, "a", wins=4, losses=0)  # p = 5/6
    play(curriculum, "b", wins=1, losses=2)  # p = 2/5
    play(curriculum, "c", wins=0, losses=4)
    play(curriculum, "c", wins=3, losses=1, group=1)  # counts 3 of 4 + 2: p = 4/8
    expected = [4 * 5 / 36, 4 * 6 / 25, 1.0, 1.0]
    np.testing.assert_allclose(curriculum.weights(), expected)


def test_its_strength_mixes_with_equal_weights():
    curriculum = Curriculum(PANEL, 0.25, seed=0)
    play(curriculum, "a", wins=4, losses=0)
    np.testing.assert_allclose(curriculum.weights(), [0.75 + 0.25 * 20 / 36, 1, 1, 1])


def test_without_strength_it_is_epochs_over_the_panel_whatever_succeeds():
    curriculum = Curriculum(PANEL, 0.0, seed=3)
    play(curriculum, "a", wins=4, losses=0)
    for iteration in range(6):
        assert curriculum.tasks(iteration, 3) == PANEL.batch(iteration, 3, 3)


def test_tasks_come_as_often_as_they_weigh():
    curriculum = Curriculum(PANEL, 1.0, seed=5)
    play(curriculum, "a", wins=16, losses=0)
    play(curriculum, "b", wins=0, losses=16)
    drawn = Counter(curriculum.tasks(iteration, 1)[0] for iteration in range(4000))
    share = np.array([drawn[task] for task in "abcd"]) / 4000
    weights = curriculum.weights()
    np.testing.assert_allclose(share, weights / weights.sum(), atol=0.03)


@pytest.mark.parametrize("strength", [0.0, 1.0])
def test_further_tasks_are_other_ones_as_long_as_there_are_any(strength):
    curriculum = Curriculum(PANEL, strength, seed=1)
    tasks = curriculum.tasks(0, 2)
    more = curriculum.more(0, 2, start=0, count=1) + curriculum.more(0, 2, start=1, count=1)
    assert sorted(tasks + more) == ["a", "b", "c", "d"]
    assert curriculum.more(0, 2, start=0, count=2) == more
    assert set(curriculum.more(0, 4, start=0, count=4)) == set("abcd")


def test_no_task_comes_twice_in_an_iteration_that_the_panel_has_enough_for():
    curriculum = Curriculum(PANEL, 1.0, seed=1)
    for iteration in range(20):
        assert len(set(curriculum.tasks(iteration, 4))) == 4
    assert len(curriculum.tasks(0, 6)) == 6


def test_it_goes_on_from_its_state():
    one, other = Curriculum(PANEL, 1.0, seed=1), Curriculum(PANEL, 1.0, seed=1)
    play(one, "a", wins=16, losses=0)
    other.set_state(one.get_state())
    np.testing.assert_array_equal(one.weights(), other.weights())
    assert [one.tasks(k, 2) for k in range(9)] == [other.tasks(k, 2) for k in range(9)]
