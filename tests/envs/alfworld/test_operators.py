"""The library on real games: every operator fires, and no judgment depends on hidden state."""

import dataclasses
import random
from collections import defaultdict

import numpy as np
import pytest

from trca.envs.alfworld.adapter import ALFWorldAdapter
from trca.envs.alfworld.data import generate
from trca.envs.alfworld.env import ALFWorldEnv
from trca.envs.alfworld.simulator import Game, Simulator
from trca.envs.annotate import RubricAnnotation, load_judge
from trca.rubric import CATEGORIES, RubricLibrary

LIBRARY = RubricLibrary.load("alfworld")
POSITIVE = [o.id for o in LIBRARY.operators if o.category != "invalidity"]


def fired_by_oracle(env, task):
    """The operators that fire on the oracle's steps, one set per step."""
    env.reset(options={"task": task})
    steps, over = [], False
    while not over:
        *_, terminated, truncated, info = env.step(env.unwrapped.oracle_action())
        steps.append(info["rubric"]["fired"])
        over = terminated or truncated
    assert info["won"]
    return steps


@pytest.fixture(scope="module")
def oracle_steps():
    """The oracle's steps on several tasks of each of the six types."""
    types = ("Pick", "Look", "Clean", "Heat", "Cool", "Pick2")
    env = RubricAnnotation(ALFWorldEnv(games="medium", task_types=types))
    by_type = defaultdict(list)
    for task in env.unwrapped.task_ids[:60]:
        kind = env.unwrapped.source.task_type(task)
        by_type[kind].append(fired_by_oracle(env, task))
    assert set(by_type) == set(types)
    return by_type


def test_every_positive_operator_fires_for_the_oracle(oracle_steps):
    fired = {name for games in oracle_steps.values() for game in games for s in game for name in s}
    assert set(POSITIVE) <= fired


def test_the_oracle_does_nothing_invalid(oracle_steps):
    invalid = {o.id for o in LIBRARY.operators if o.category == "invalidity"}
    for games in oracle_steps.values():
        for game in games:
            assert not invalid & {name for step in game for name in step}


def test_success_passes_through_the_operators_of_its_type(oracle_steps):
    needed = {"target_seen", "target_taken", "goal_operation"}
    changed = {"appliance_seen", "subgoal_met", "state_confirmed"}
    for kind, games in oracle_steps.items():
        for game in games:
            fired = {name for step in game for name in step}
            assert needed <= fired, kind
            assert (changed <= fired) == (kind in ("Clean", "Heat", "Cool"))


def test_of_two_objects_the_first_is_a_subgoal_and_the_second_the_goal(oracle_steps):
    for game in oracle_steps["Pick2"]:
        met = [{"subgoal_met", "goal_operation"} & set(step) for step in game]
        assert [m for m in met if m] == [{"subgoal_met"}, {"goal_operation"}]


def test_every_operator_fires_for_some_agent_and_none_on_every_step(oracle_steps):
    env = RubricAnnotation(ALFWorldEnv())
    rng = random.Random(0)
    rows = []
    for task in env.unwrapped.task_ids[:20]:
        _, info = env.reset(options={"task": task})
        past = ["", "dance", "open mug 1", "take pen 9 from sofa 9"]
        over = False
        while not over:
            past += info["admissible_actions"]
            *_, terminated, truncated, info = env.step(rng.choice(past))
            rows.append(info["rubric"]["judgments"])
            over = terminated or truncated
    share = np.mean(rows, axis=0)
    assert (share < 0.9).all()
    invalid = LIBRARY.categories == CATEGORIES.index("invalidity")
    assert (share[invalid] > 0).all()


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
