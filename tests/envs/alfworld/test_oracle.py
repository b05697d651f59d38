"""The oracle wins every generated game of every size and type, from any state."""

import random

import pytest

from trca.envs.alfworld.beliefs import Beliefs
from trca.envs.alfworld.binding import bind
from trca.envs.alfworld.data.generate import Scene
from trca.envs.alfworld.env import ALFWorldEnv
from trca.envs.alfworld.players import (
    OracleError,
    best_way,
    oracle_action,
    true_view,
    walkthrough,
)
from trca.envs.alfworld.resources import TASK_TYPES
from trca.envs.alfworld.simulator import Game, Simulator


def oracle_steps(env, task):
    env.reset(options={"task": task})
    for step in range(1, env.max_steps + 1):
        _, _, won, _, info = env.step(env.oracle_action())
        assert info["accepted"]
        if won:
            return step
    return None


@pytest.mark.parametrize(("size", "count"), [("small", 48), ("medium", 24), ("large", 6)])
def test_every_generated_game_is_won(size, count):
    for split in ("train", "valid_unseen"):
        env = ALFWorldEnv(size, split, task_types=TASK_TYPES)
        lengths = [oracle_steps(env, task) for task in env.task_ids[:count]]
        assert None not in lengths
        assert max(lengths) <= 12


def test_a_walkthrough_is_gold_that_completes_the_task():
    env = ALFWorldEnv(task_types=TASK_TYPES)
    for task in env.task_ids[:18]:
        env.reset(options={"task": task})
        *others, last = env.gold(task).walkthrough
        assert not any(env.step(action)[2] for action in others)
        assert env.step(last)[2]
    with pytest.raises(ValueError, match="unknown task of split 'train' 'small/train/pick-000'"):
        env.gold("small/train/pick-000")


def test_the_walkthrough_of_the_game_file_comes_first():
    scene = Scene("own", ("Cabinet", "CounterTop"), (("Mug", 0),), "Pick", "Mug", "CounterTop", 0)
    assert walkthrough(Game({**scene.game(), "walkthrough": ["look"]})) == ("look",)
    assert walkthrough(Game(scene.game()))[-1] == "move mug 1 to countertop 1"


def test_it_takes_over_from_any_state():
    env = ALFWorldEnv(max_steps=60, task_types=TASK_TYPES)
    rng = random.Random(0)
    for task in env.task_ids[:18]:
        _, info = env.reset(options={"task": task})
        for _ in range(30):
            _, _, over, _, info = env.step(rng.choice(info["admissible_actions"]))
            if over:
                break
        spent = 0
        while not over:
            _, _, over, _, info = env.step(env.oracle_action())
            assert info["accepted"]
            spent += 1
        assert spent <= 16


def test_it_sees_what_is_hidden():
    scene = Scene(
        "hidden", ("Cabinet", "CounterTop"), (("Mug", 0),), "Pick", "Mug", "CounterTop", 0
    )
    simulator = Simulator(Game(scene.game()))
    simulator.reset()
    view = true_view(simulator)
    assert view.where == {"mug 1": "cabinet 1"}
    assert view.closed == {"cabinet 1"}
    assert not view.here
    actions = []
    while not simulator.won:
        actions.append(oracle_action(simulator))
        simulator.step(actions[-1])
    assert actions == [
        "go to cabinet 1",
        "open cabinet 1",
        "take mug 1 from cabinet 1",
        "go to countertop 1",
        "move mug 1 to countertop 1",
    ]


def test_a_game_without_a_way_is_named():
    scene = Scene("stuck", ("CounterTop", "Shelf"), (("Mug", 0),), "Heat", "Mug", "Shelf", 0)
    simulator = Simulator(Game(scene.game()))
    simulator.reset()
    with pytest.raises(OracleError, match="mug"):
        oracle_action(simulator)


def view(**changes):
    room = Beliefs(["countertop 1", "countertop 2", "fridge 1", "cabinet 1"])
    vars(room).update({"closed": {"fridge 1", "cabinet 1"}} | changes)
    return room


def test_the_nearer_of_two_things_is_used():
    way = best_way(
        bind("put a mug in cabinet."),
        view(here={"countertop 1"}, where={"mug 1": "fridge 1", "mug 2": "countertop 1"}),
    )
    assert way.actions[0] == "take mug 2 from countertop 1"


def test_a_thing_already_in_the_right_state_is_not_treated_again():
    way = best_way(
        bind("put a cool mug in cabinet."),
        view(where={"mug 1": "countertop 1"}, states={"mug 1": {"cool"}}),
    )
    assert not any(action.startswith("cool") for action in way.actions)


def test_two_things_go_to_the_same_receptacle():
    way = best_way(
        bind("put two mug in countertop."),
        view(where={"mug 1": "countertop 2", "mug 2": "fridge 1", "mug 3": "cabinet 1"}),
    )
    assert way.actions == (
        "go to fridge 1",
        "open fridge 1",
        "take mug 2 from fridge 1",
        "go to countertop 2",
        "move mug 2 to countertop 2",
    )


def test_what_is_unknown_is_counted_as_missing():
    assert best_way(bind("put a mug in cabinet."), view()) is None
    way = best_way(bind("look at mug under the desklamp."), view(where={"mug 1": "countertop 1"}))
    assert (way.actions[-1], way.missing) == ("take mug 1 from countertop 1", 1)
