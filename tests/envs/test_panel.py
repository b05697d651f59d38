"""Panels: the tasks of an iteration, and the content of a hash."""

import pytest

from trca.envs.panel import Panel

PANEL = Panel("me/Rooms-v0", "train", tuple("abcdefg"))


def test_iterations_take_every_task_once_an_epoch_whatever_their_size():
    for size in (2, 3, 7, 20):
        taken = [task for k in range(7) for task in PANEL.batch(k, size, seed=1)]
        for epoch in range(size):
            assert sorted(taken[7 * epoch : 7 * epoch + 7]) == list("abcdefg")


def test_an_iteration_depends_on_its_number_and_the_seed_alone():
    assert PANEL.batch(5, 3, seed=1) == PANEL.batch(5, 3, seed=1)
    assert len({PANEL.batch(0, 7, seed) for seed in range(9)}) > 5
    assert len({PANEL.batch(k, 7, seed=1) for k in range(9)}) > 5


def test_a_hash_is_that_of_environment_split_and_tasks_in_order():
    same = Panel("me/Rooms-v0", "train", tuple("abcdefg"))
    others = [
        Panel("me/Halls-v0", "train", PANEL.task_ids),
        Panel("me/Rooms-v0", "valid", PANEL.task_ids),
        Panel("me/Rooms-v0", "train", PANEL.task_ids[::-1]),
        PANEL.head(6),
    ]
    assert same.hash == PANEL.hash == PANEL.head(None).hash
    assert len({panel.hash for panel in [PANEL, *others]}) == 5


def test_empty_panels_and_repeated_tasks_are_refused():
    with pytest.raises(ValueError, match="'train' is empty"):
        Panel("me/Rooms-v0", "train", ())
    with pytest.raises(ValueError, match="repeats a task"):
        Panel("me/Rooms-v0", "train", ("a", "a"))
