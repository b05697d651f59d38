"""Generated scenes are deterministic and unsolved at the start, and splits share no scene."""

import hashlib
import json
from collections import Counter

import pytest

from trca.envs.alfworld import resources
from trca.envs.alfworld.binding import bind
from trca.envs.alfworld.data.generate import LAMP, SIZES, SPLITS, draw, layouts
from trca.envs.alfworld.resources import TASK_TYPES

EVERY = [
    (size, split, task_type, number)
    for size in SIZES
    for split in SPLITS
    for task_type in TASK_TYPES
    for number in range(12)
]


def test_a_scene_is_a_function_of_its_arguments():
    for arguments in EVERY[::7]:
        assert draw(*arguments) == draw(*arguments)
    assert draw("small", "train", "Heat", 0) != draw("small", "train", "Heat", 0, seed=1)


def test_the_games_of_this_release_are_pinned():
    games = [draw(*arguments).game() for arguments in EVERY]
    digest = hashlib.sha256(json.dumps(games, sort_keys=True).encode()).hexdigest()
    assert digest[:16] == "64b009142bc0b04d", "games changed under their ids"


def test_no_two_tasks_share_a_scene():
    def content(scene):
        return (
            scene.receptacles,
            tuple(sorted(scene.objects)),
            scene.task_type,
            scene.target,
            scene.destination,
            scene.wording,
        )

    drawn = [
        content(draw("small", split, task_type, number))
        for split in SPLITS
        for task_type in TASK_TYPES
        for number in range(32)
    ]
    assert Counter(drawn).most_common(1)[0][1] == 1


@pytest.mark.parametrize("size", SIZES)
def test_unseen_layouts_are_not_in_train(size):
    for kind in SIZES[size].rooms:
        train, unseen = layouts(size, kind)
        assert len({*train, *unseen}) == len(train) + len(unseen) == sum(SIZES[size].layouts)
    of = {
        split: {draw(size, split, t, n).receptacles for t in TASK_TYPES for n in range(20)}
        for split in SPLITS
    }
    assert of["valid_seen"] & of["train"]
    assert not of["valid_unseen"] & (of["train"] | of["valid_seen"])


def test_no_task_is_done_at_the_start_and_every_target_is_there():
    for arguments in EVERY:
        scene = draw(*arguments)
        places = [scene.receptacles[at] for kind, at in scene.objects if kind == scene.target]
        assert len(places) >= (2 if scene.task_type == "Pick2" else 1)
        if scene.task_type == "Look":
            assert LAMP in dict(scene.objects)
        else:
            assert scene.destination in scene.receptacles
            assert scene.destination not in places
            assert scene.target in resources.can_contain(scene.destination)


def test_everything_lies_where_alfworld_allows_it():
    for arguments in EVERY[::5]:
        scene = draw(*arguments)
        for kind, at in scene.objects:
            if kind != LAMP:
                assert kind in resources.can_contain(scene.receptacles[at])


def test_the_instruction_asks_for_the_goal_in_every_wording():
    wordings = set()
    for arguments in EVERY:
        scene = draw(*arguments)
        task = bind(scene.instruction)
        assert task.target == scene.target.lower()
        assert (task.lamp or task.destination) == scene.destination.lower()
        assert task.quantity == (2 if scene.task_type == "Pick2" else 1)
        assert task.state == {"Clean": "clean", "Heat": "hot", "Cool": "cool"}.get(
            scene.task_type, ""
        )
        wordings.add((scene.task_type, scene.wording))
    assert len(wordings) == 2 * len(TASK_TYPES)


@pytest.mark.parametrize(
    ("size", "receptacles", "objects"),
    [("small", (6, 7), (3, 6)), ("medium", (10, 13), (10, 15)), ("large", (12, 34), (14, 53))],
)
def test_sizes_keep_their_bounds(size, receptacles, objects):
    for arguments in EVERY:
        if arguments[0] == size:
            scene = draw(*arguments)
            assert receptacles[0] <= len(scene.receptacles) <= receptacles[1]
            assert objects[0] <= len(scene.objects) <= objects[1]


def test_small_games_keep_a_small_vocabulary():
    kinds = {
        kind
        for split in SPLITS
        for task_type in SIZES["small"].task_types
        for number in range(32)
        for kind, _ in draw("small", split, task_type, number).objects
    }
    assert len(kinds) == 8
