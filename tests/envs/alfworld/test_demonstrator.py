"""The demonstrator reads observations only, acts admissibly, and wins most small games."""

import random

import pytest

from trca.envs.alfworld.beliefs import Beliefs
from trca.envs.alfworld.binding import bind
from trca.envs.alfworld.env import ALFWorldEnv
from trca.envs.alfworld.players import demonstrated_action, demonstrated_subgoal
from trca.envs.alfworld.reading import read_action

ROOM = ("cabinet 1", "countertop 1", "fridge 1", "microwave 1", "sinkbasin 1")


def episode(env, task, rng=None, perturb=0.0):
    _, info = env.reset(options={"task": task})
    over = False
    while not over:
        offered = info["admissible_actions"]
        action = env.demonstrator_action()
        assert action in offered
        if rng is not None and rng.random() < perturb:
            action = rng.choice(offered)
        _, _, terminated, truncated, info = env.step(action)
        over = terminated or truncated
    return info["won"]


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


def test_it_takes_what_the_task_names(beliefs):
    assert choose("put a hot mug in cabinet.", beliefs) == "take mug 1 from countertop 1"


def test_it_brings_what_it_holds_to_the_appliance_and_then_to_the_goal(beliefs):
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


def test_it_searches_where_the_thing_may_be(beliefs):
    assert choose("put a potato in countertop.", beliefs) == "go to sinkbasin 1"
    assert choose("put a kettle in countertop.", beliefs) == "go to sinkbasin 1"
    beliefs.update(
        read_action("go to sinkbasin 1"),
        "You arrive at sinkbasin 1. On the sinkbasin 1, you see nothing.",
        ["examine sinkbasin 1"],
    )
    assert choose("put a potato in countertop.", beliefs) == "go to fridge 1"
    assert choose("put a kettle in countertop.", beliefs) == "go to cabinet 1"


def test_it_puts_down_what_is_in_the_way(beliefs):
    beliefs.update(
        read_action("take apple 1 from countertop 1"),
        "You pick up the apple 1 from the countertop 1.",
        [],
    )
    assert choose("put a mug in cabinet.", beliefs) == "move apple 1 to countertop 1"


def test_it_leaves_the_first_of_two_where_it_belongs_and_searches_on():
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


@pytest.mark.parametrize("split", ["train", "valid_unseen"])
def test_it_wins_small_games_of_every_type(split):
    env = ALFWorldEnv(split=split, task_types=["Pick", "Look", "Clean", "Heat", "Cool", "Pick2"])
    won = [episode(env, task) for task in env.task_ids[:24]]
    assert sum(won) == len(won)


def test_it_copes_with_what_others_did_in_between():
    env = ALFWorldEnv(max_steps=60)
    rng = random.Random(0)
    won = [episode(env, task, rng, perturb=0.5) for task in env.task_ids[:24]]
    assert sum(won) >= 22


def test_it_takes_over_from_any_state():
    env = ALFWorldEnv(max_steps=80, task_types=["Pick2", "Look", "Heat"])
    rng = random.Random(1)
    for task in env.task_ids[:9]:
        _, info = env.reset(options={"task": task})
        for _ in range(40):
            _, _, over, _, info = env.step(rng.choice(info["admissible_actions"]))
            if over:
                break
        while not over:
            _, _, over, truncated, _ = env.step(env.demonstrator_action())
            assert not truncated


def test_asking_twice_gives_the_same_answer():
    env = ALFWorldEnv()
    env.reset(options={"task": "small/train/heat-0003"})
    assert env.demonstrator_action() == env.demonstrator_action()


def test_its_subgoal_is_the_next_milestone(beliefs):
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


def test_it_looks_for_the_lamp_with_the_object_in_hand(beliefs):
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
