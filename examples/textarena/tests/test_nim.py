"""Nim of TextArena itself: rules, roles, PettingZoo, training."""

import warnings
from functools import reduce
from operator import xor
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import trca_textarena
from pettingzoo.test import api_test, parallel_api_test
from trca_textarena.env import PLAYERS, Nim

from trca.algorithms.settings.parameters import TextParameters
from trca.envs import aec_env, make, parallel_env
from trca.records import by_agent, by_episode
from trca.tune_configs.files import assign, read

PACKAGE = Path(__file__).parents[1]
ENV = "trca_textarena:textarena/Nim-v0"


def play(env, first, second, task):
    """Plays a game of two functions that choose the actions; returns the rewards of the roles."""
    env.reset(options={"task": task}, seed=int(task.replace("-", "")))
    players = {"first": first, "second": second}
    for role in env.agent_iter():
        *_, terminated, truncated, _ = env.last()
        if terminated or truncated:
            return dict(env.rewards)
        env.step(players[role]())
    raise AssertionError


def test_perfect_play_wins_by_the_binary_sum_of_the_start():
    env = aec_env(ENV, team=PLAYERS)
    nim = env.unwrapped.team_env._text_env
    tasks = nim.task_ids
    assert len(tasks) == 51
    for task in tasks:
        first_wins = reduce(xor, map(int, task.split("-"))) != 0
        rewards = play(env, nim.oracle_action, nim.oracle_action, task)
        assert rewards == {"first": 1 if first_wins else -1, "second": -1 if first_wins else 1}


def test_the_oracle_beats_random_play_in_both_roles():
    env = aec_env(ENV, team=PLAYERS, split="test")
    nim = env.unwrapped.team_env._text_env
    rng = np.random.default_rng(0)
    for role in ("first", "second"):
        chosen = {"first": lambda: nim.random_action(rng), "second": lambda: nim.random_action(rng)}
        chosen[role] = nim.oracle_action
        won = [play(env, **chosen, task=task)[role] > 0 for task in nim.task_ids * 3]
        assert np.mean(won) > 0.75


@pytest.mark.parametrize("action", ["", "take all", "[9 1]", "[0 9]", "[0 0]"])
def test_an_invalid_move_loses(action):
    env = make(ENV, team=PLAYERS)
    env.reset(options={"task": "3-4-2"})
    _, reward, terminated, _, info = env.step(action)
    assert (reward, terminated, info["accepted"]) == (-1, True, False)
    assert info["roles"]["second"].won
    assert not info["roles"]["first"].won


def test_observations_and_actions_are_those_of_the_game():
    env = make(ENV, team=PLAYERS)
    observation, info = env.reset(options={"task": "3-4-2"})
    assert observation == "pile 0: 3\npile 1: 4\npile 2: 2"
    assert len(info["admissible_actions"]) == 9
    observation, _, _, _, info = env.step("[1 4]")
    assert observation == "pile 0: 3\npile 1: 0\npile 2: 2"
    assert (info["agent"], info["admissible_actions"][-1]) == ("second", "[2 2]")


def test_the_moves_of_a_random_role_are_random():
    env = make(Nim, team=PLAYERS, random_role="second", split="test")
    boards = set()
    for seed in range(20):
        env.reset(options={"task": env.unwrapped.task_ids[-1]}, seed=seed)
        env.step("[0 1]")
        boards.add(env.step("nonsense")[0])
    assert len(boards) > 3


def test_the_api_tests_of_pettingzoo_pass():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        api_test(aec_env(ENV, team=PLAYERS), num_cycles=40)
        parallel_api_test(parallel_env(ENV, team=PLAYERS), num_cycles=40)


def test_wrong_arguments_are_refused():
    for wrong in ({"split": "dev"}, {"random_role": "third"}, {"largest": 0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            Nim(**wrong)
    with pytest.raises(ValueError, match="no task"):
        Nim().reset(options={"task": "9-9-9"})


def test_gymnasium_knows_it():
    assert trca_textarena
    env = gymnasium.make("textarena/Nim-v0", split="test")
    assert len(env.unwrapped.task_ids) == 13


def test_it_trains():
    small = {
        "model": "shrunk:Qwen/Qwen2.5-1.5B-Instruct",
        "env_config.team": str(PLAYERS),
        "tasks_per_iteration": 2,
        "group_size": 2,
        "max_new_tokens": 6,
        "train_malformed": True,
        "evaluation_rollouts": 1,
    }
    settings = TextParameters.resolve(assign(read(str(PACKAGE / "train.yaml")), small))
    trainer = settings.algorithm_config().build_algo()
    try:
        trainer.train()
        assert set(by_agent(trainer.rollouts)) == {"first", "second"}
        for first, second in by_episode(trainer.rollouts):
            assert first.won != second.won
            assert (first.module_id, second.module_id).count(first.agent_id) + (
                second.module_id == "second"
            ) == 1
    finally:
        trainer.stop()
