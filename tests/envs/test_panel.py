"""Panels: the tasks of an iteration, the content of a hash, and canonical panels."""

from dataclasses import replace

import pytest

from trca.envs.panel import Panel, canonical_panel, canonical_panels

EMBEDDED = [name for name in canonical_panels() if name.startswith("embedded-")]
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


@pytest.mark.parametrize("name", EMBEDDED)
def test_embedded_panels_are_what_their_names_and_hashes_say(name):
    canonical = canonical_panel(name)
    panel = canonical.draw()
    assert panel.hash == canonical.hash
    assert len(panel.task_ids) == int(name.rpartition("-")[2])


def test_a_shuffled_panel_is_not_the_head_and_repeats_nothing():
    split = Panel("e", "s", tuple(map(str, range(140))))
    drawn = replace(canonical_panel("verl-agent-128"), hash=None).draw(split)
    assert len(set(drawn.task_ids)) == 128
    assert drawn.task_ids != split.task_ids[:128]


def test_other_data_are_refused():
    canonical = canonical_panel("embedded-alfworld-64")
    with pytest.raises(ValueError, match="use the data of the original panel"):
        replace(canonical, env_config={"games": "small-7"}).draw()
    with pytest.raises(ValueError, match="needs 500 tasks, the data have 218"):
        replace(canonical_panel("webshop-500"), env_config={}).draw()
    with pytest.raises(ValueError, match="did you mean 'official-134'"):
        canonical_panel("offical-134")
