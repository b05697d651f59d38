"""Copies of environments in the middle of an episode, as tree search and Ray tasks make them."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import cloudpickle  # type: ignore[import-untyped]
import gymnasium
import numpy as np
import pytest

from tests.toy import Rooms
from trca.envs import ActionChoice, aec_env, make, parallel_env
from trca.envs.demonstrations import Demonstrations

COPIES: dict[str, Callable[[Any], Any]] = {
    "deepcopy": copy.deepcopy,
    "pickle": lambda env: pickle.loads(pickle.dumps(env)),
    "cloudpickle": lambda env: cloudpickle.loads(cloudpickle.dumps(env)),
}
ENVS: dict[str, Callable[[], Any]] = {
    "alfworld": lambda: make("alfworld"),
    "webshop": lambda: make("webshop"),
    "searchqa": lambda: make("searchqa"),
    "team": lambda: make("alfworld", team="alfworld_planner"),
    "random": lambda: make(Rooms, wind=0.5),
    "plain": lambda: make("examples/plain_key_door.py:KeyDoor"),
    "choice": lambda: ActionChoice(make("webshop")),
    "demonstrations": lambda: Demonstrations(make("alfworld"), randomness=0.5),
    "member": lambda: gymnasium.vector.SyncVectorEnv([lambda: make("alfworld")]).envs[0],
}
every_copy = pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES)


def played(env: Any, steps: int) -> list[Any]:
    """The results of random actions; a new episode starts where one ends."""
    rng, results = np.random.default_rng(7), list[Any]()
    for _ in range(steps):
        action = env.unwrapped.random_action(rng)
        if isinstance(env, ActionChoice):
            action = np.int64(rng.integers(3))
        observation, reward, terminated, truncated, info = env.step(action)
        rubric = info.get("rubric") or {}
        results.append((info.get("text", observation), reward, terminated, truncated))
        results.append((info.get("facts"), rubric.get("fired"), rubric.get("reward")))
        results.append((info["task_id"], info["memory"], info.get("demonstration")))
        if terminated or truncated:
            results.append(env.reset()[1]["task_id"])
    return results


@every_copy
@pytest.mark.parametrize("name", ENVS)
def test_a_copy_continues_alone_with_equal_random_streams(
    name: str, copied: Callable[[Any], Any]
) -> None:
    env = ENVS[name]()
    env.reset(seed=3)
    played(env, 3)
    other = copied(env)
    assert played(other, 30) == played(env, 30)


@every_copy
@pytest.mark.parametrize("settings", [{"agents": 2}, {"team": "alfworld_planner"}])
def test_a_copy_of_several_agents_continues_alone(
    settings: dict[str, Any], copied: Callable[[Any], Any]
) -> None:
    together, turns = parallel_env("alfworld", **settings), aec_env("alfworld", **settings)
    together.reset(seed=3)
    turns.reset(seed=3)
    steps: list[tuple[Any, Callable[[Any], Any]]] = [
        (together, lambda env: env.step(dict.fromkeys(env.agents, "look"))),
        (turns, lambda env: (env.step("look"), env.last()[:2])),
    ]
    for env, step in steps:
        step(env)
        other = copied(env)
        first = [repr(step(other)) for _ in range(3)]
        assert first == [repr(step(env)) for _ in range(3)]


@every_copy
def test_copies_share_games_catalogues_and_indexes(copied: Callable[[Any], Any]) -> None:
    parts: list[tuple[str, Callable[[Any], Any]]] = [
        ("alfworld", lambda env: env._simulator.game),
        ("webshop", lambda env: env.catalogue),
        ("webshop", lambda env: env.goals),
        ("searchqa", lambda env: env._retriever),
        ("searchqa", lambda env: env._tasks),
    ]
    for name, part in parts:
        env = make(name)
        env.reset(seed=0)
        assert part(copied(env).unwrapped) is part(env.unwrapped)


@every_copy
def test_the_samples_of_a_copied_space_are_those_of_the_original(
    copied: Callable[[Any], Any],
) -> None:
    env = make("alfworld")
    env.action_space.seed(1)
    other = copied(env)
    assert other.action_space.sample() == env.action_space.sample()


def test_a_deep_copy_shares_the_rubric_and_judges_alone() -> None:
    env: Any = make("alfworld")
    env.reset(seed=0)
    other = copy.deepcopy(env)
    assert other.get_wrapper_attr("judge").library is env.get_wrapper_attr("judge").library
    assert other.get_wrapper_attr("judge") is not env.get_wrapper_attr("judge")


def test_another_process_continues_a_pickle() -> None:
    envs = [make(name) for name in ("alfworld", "webshop", "searchqa")]
    for env in envs:
        env.reset(seed=3)
        played(env, 3)
        assert len(pickle.dumps(env)) < 65_536
    program = """
import pickle, sys
from tests.envs.test_copies import played
for env in pickle.load(sys.stdin.buffer):
    print(repr(played(env, 10)))
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, input=pickle.dumps(envs), capture_output=True)
    expected = [repr(played(env, 10)) for env in envs]
    assert done.stdout.decode().splitlines() == expected, done.stderr


@every_copy
def test_a_process_is_not_copied(copied: Callable[[Any], Any]) -> None:
    env = make(Rooms, isolation="process")
    env.reset(seed=0)
    with pytest.raises(TypeError, match="IsolatedEnv has a process or a connection and cannot be"):
        copied(env)
    env.close()
