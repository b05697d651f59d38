"""The oracle plans from the true state; the demonstrator reads observations only."""

import pytest

from trca.envs.alfworld.beliefs import Beliefs
from trca.envs.alfworld.binding import bind
from trca.envs.alfworld.data.generate import Scene
from trca.envs.alfworld.env import ALFWorldEnv
from trca.envs.alfworld.players import (
    best_way,
    demonstrated_action,
    demonstrated_subgoal,
    oracle_action,
    true_view,
    walkthrough,
)
from trca.envs.alfworld.reading import read_action
from trca.envs.alfworld.resources import TASK_TYPES
from trca.envs.alfworld.simulator import Game, Simulator
from trca.envs.text_env import OracleError


def test_a_walkthrough_is_gold_that_completes_the_task():
    env = ALFWorldEnv(task_types=TASK_TYPES)
    for task in env.task_ids[:18]:
        env.reset(options={"task": task})
        *others, last = env.gold(task).walkthrough
        assert not any(env.step(action)[2] for action in others)
        assert env.step(last)[2]
    with pytest.raises(ValueError, match="no task 'small/train/pick-000' in split 'train'"):
        env.gold("small/train/pick-000")


def test_the_walkthrough_of_the_game_file_comes_first():
    scene = Scene("own", ("Cabinet", "CounterTop"), (("Mug", 0),), "Pick", "Mug", "CounterTop", 0)
    assert walkthrough(Game({**scene.game(), "walkthrough": ["look"]})) == ("look",)
    assert walkthrough(Game(scene.game()))[-1] == "move mug 1 to countertop 1"


def test_the_oracle_sees_what_is_hidden():
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


ROOM = ("cabinet 1", "countertop 1", "fridge 1", "microwave 1", "sinkbasin 1")


@pytest.fixture
def beliefs():
    """Beliefs at the countertop with a mug and an apple on it."""
    observed = Beliefs(ROOM)
    observed.update(
        read_action("go to countertop 1"),
        "You arrive at countertop 1. On the countertop 1, you see a apple 1, and a mug 1.",
        ["examine countertop 1", "take apple 1 from countertop 1", "take mug 1 from countertop 1"],
    )
    return observed


def choose(task, beliefs):
    class Anything:
        def __contains__(self, action):
            return True

    return demonstrated_action(bind(task), beliefs, Anything())


def test_the_demonstrator_takes_what_the_task_names(beliefs):
    assert choose("put a hot mug in cabinet.", beliefs) == "take mug 1 from countertop 1"


def test_the_demonstrator_brings_what_it_holds_to_the_appliance_and_then_to_the_goal(beliefs):
    task = "put a hot mug in cabinet."
    steps = [
        ("take mug 1 from countertop 1", "You pick up the mug 1 from the countertop 1."),
        ("go to microwave 1", "You arrive at microwave 1. The microwave 1 is closed."),
        ("heat mug 1 with microwave 1", "You heat the mug 1 using the microwave 1."),
        ("go to cabinet 1", "You arrive at cabinet 1. The cabinet 1 is closed."),
        (
            "open cabinet 1",
            "You open the cabinet 1. The cabinet 1 is open. In it, you see nothing.",
        ),
        ("move mug 1 to cabinet 1", "You move the mug 1 to the cabinet 1."),
    ]
    for action, answer in steps:
        assert choose(task, beliefs) == action
        beliefs.update(read_action(action), answer, [])


def test_the_demonstrator_searches_where_the_thing_may_be(beliefs):
    assert choose("put a potato in countertop.", beliefs) == "go to sinkbasin 1"
    assert choose("put a kettle in countertop.", beliefs) == "go to sinkbasin 1"
    beliefs.update(
        read_action("go to sinkbasin 1"),
        "You arrive at sinkbasin 1. On the sinkbasin 1, you see nothing.",
        ["examine sinkbasin 1"],
    )
    assert choose("put a potato in countertop.", beliefs) == "go to fridge 1"
    assert choose("put a kettle in countertop.", beliefs) == "go to cabinet 1"


def test_the_demonstrator_puts_down_what_is_in_the_way(beliefs):
    beliefs.update(
        read_action("take apple 1 from countertop 1"),
        "You pick up the apple 1 from the countertop 1.",
        [],
    )
    assert choose("put a mug in cabinet.", beliefs) == "move apple 1 to countertop 1"


def test_the_demonstrator_leaves_the_first_of_two_where_it_belongs_and_searches_on():
    observed = Beliefs((*ROOM, "cabinet 2"))
    observed.update(
        read_action("go to cabinet 1"),
        "You arrive at cabinet 1. The cabinet 1 is closed.",
        ["examine cabinet 1"],
    )
    observed.update(
        read_action("open cabinet 1"),
        "You open the cabinet 1. The cabinet 1 is open. In it, you see a cup 1.",
        ["examine cabinet 1", "take cup 1 from cabinet 1"],
    )
    assert choose("put two cup in cabinet.", observed) == "go to countertop 1"


def test_the_subgoal_is_the_next_milestone(beliefs):
    task = bind("put a hot mug in cabinet.")
    assert demonstrated_subgoal(task, Beliefs(ROOM)) == "find mug"
    for subgoal, action, answer in (
        ("take mug", "take mug 1 from countertop 1", "You pick up the mug 1."),
        ("heat mug", "go to microwave 1", "You arrive at microwave 1. The microwave 1 is closed."),
        ("heat mug", "heat mug 1 with microwave 1", "You heat the mug 1 using the microwave 1."),
        ("move mug", "go to cabinet 1", "You arrive at cabinet 1. The cabinet 1 is closed."),
        ("move mug", "open cabinet 1", "You open the cabinet 1. In it, you see nothing."),
        ("move mug", "move mug 1 to cabinet 1", "You move the mug 1 to the cabinet 1."),
    ):
        assert demonstrated_subgoal(task, beliefs) == subgoal
        beliefs.update(read_action(action), answer, [])


def test_the_demonstrator_looks_for_the_lamp_with_the_object_in_hand(beliefs):
    task = bind("look at mug under the desklamp.")
    assert demonstrated_subgoal(task, beliefs) == "take mug"
    beliefs.update(read_action("take mug 1 from countertop 1"), "You pick up the mug 1.", [])
    assert demonstrated_subgoal(task, beliefs) == "find desklamp"
    beliefs.update(
        read_action("go to countertop 1"),
        "You arrive at countertop 1. On the countertop 1, you see a desklamp 1.",
        [],
    )
    assert demonstrated_subgoal(task, beliefs) == "use desklamp"
