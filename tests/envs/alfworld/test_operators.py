"""The library on real games: operators of each task type, and no judgment of hidden state."""

import dataclasses
import random

import numpy as np
import pytest

from tests.envs.playing import judged
from trca.envs.alfworld.adapter import ALFWorldAdapter
from trca.envs.alfworld.data import generate
from trca.envs.alfworld.env import ALFWorldEnv
from trca.envs.alfworld.simulator import Game, Simulator
from trca.envs.annotate import load_judge

TYPES = ("Pick", "Look", "Clean", "Heat", "Cool", "Pick2")


@pytest.fixture(scope="module")
def oracle_steps():
    """Task type -> the operators that fire in each step of the oracle, by task."""
    envs = {kind: ALFWorldEnv(games="medium", task_types=[kind]) for kind in TYPES}
    return {kind: judged(env, ALFWorldEnv.oracle_action, 8)[0] for kind, env in envs.items()}


def test_success_passes_through_the_operators_of_its_type(oracle_steps):
    needed = {"target_seen", "target_taken", "goal_operation"}
    changed = {"appliance_seen", "subgoal_met", "state_confirmed"}
    for kind, games in oracle_steps.items():
        for game in games:
            fired = set().union(*game)
            assert needed <= fired, kind
            assert (changed <= fired) == (kind in ("Clean", "Heat", "Cool"))


def test_of_two_objects_the_first_is_a_subgoal_and_the_second_the_goal(oracle_steps):
    for game in oracle_steps["Pick2"]:
        met = [{"subgoal_met", "goal_operation"} & step for step in game]
        assert [m for m in met if m] == [{"subgoal_met"}, {"goal_operation"}]


def with_another_place_for(scene, kind, opened):
    """The scene with an object of a type moved to another closed receptacle; this receptacle."""
    for number, (sort, at) in enumerate(scene.objects):
        if sort != kind:
            continue
        for other in opened:
            if other != at:
                objects = list(scene.objects)
                objects[number] = (sort, other)
                return dataclasses.replace(scene, objects=tuple(objects)), at, other
    return None


def test_facts_are_equal_for_games_that_differ_only_in_what_was_not_seen():
    """The target is in another closed receptacle; an agent that opens neither sees the same."""
    rng = random.Random(0)
    judge = load_judge("alfworld", ALFWorldAdapter)
    compared = 0
    for number in range(40):
        scene = generate.draw("small", "train", ("Heat", "Cool")[number % 2], number)
        boxes = [
            i for i, r in enumerate(scene.receptacles) if r in ("Fridge", "Microwave", "Cabinet")
        ]
        changed = with_another_place_for(scene, scene.target, boxes)
        if changed is None or changed[1] not in boxes:
            continue
        twin, *hiding = changed
        hidden = {scene.receptacles[i].lower() for i in hiding}
        games = [Simulator(Game(s.game())) for s in (scene, twin)]
        adapters = [ALFWorldAdapter(), ALFWorldAdapter()]
        for game, adapter in zip(games, adapters, strict=True):
            adapter.reset(game.game.task, game.reset(), game.admissible_actions)
        for _ in range(25):
            allowed = [
                action
                for action in games[0].admissible_actions
                if not (action.startswith("open ") and action.split()[1] in hidden)
            ]
            action = rng.choice(allowed)
            facts = [
                adapter.step(action, game.step(action), game.admissible_actions)
                for game, adapter in zip(games, adapters, strict=True)
            ]
            assert facts[0] == facts[1]
            assert adapters[0].context == adapters[1].context
            assert adapters[0].memory == adapters[1].memory
            first, second = (
                judge.judge(t.binding, f) for t, f in zip(adapters, facts, strict=True)
            )
            np.testing.assert_array_equal(first, second)
        compared += 1
    assert compared >= 3
