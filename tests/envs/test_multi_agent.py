"""PettingZoo's tests, for every packaged environment, as a rollout group and as a team."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from pettingzoo.test import api_test, parallel_api_test, parallel_seed_test, seed_test

from tests.toy import Rooms
from trca.envs import aec_env, make, parallel_env
from trca.envs.teams.team import Team
from trca.envs.text_env import Outcome

SETTINGS: list[tuple[str, dict[str, Any]]] = [
    *((name, {"agents": 3}) for name in ("alfworld", "webshop", "searchqa")),
    ("alfworld", {"team": "alfworld_planner"}),
    ("webshop", {"team": "webshop_planner"}),
    ("searchqa", {"team": "searchqa_searcher"}),
]
every_setting = pytest.mark.parametrize(
    ("name", "settings"), SETTINGS, ids=[f"{n}-{next(iter(s))}" for n, s in SETTINGS]
)


@pytest.fixture(autouse=True)
def no_advice() -> Iterator[None]:
    """Ignores PettingZoo's warnings about spaces, agent names and text observations."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


def maker(kind: Callable[..., Any], name: str, settings: dict[str, Any]) -> Callable[[], Any]:
    return partial(kind, name, max_steps=4, render_mode="ansi", **settings)


@every_setting
def test_parallel_api(name: str, settings: dict[str, Any]) -> None:
    parallel_api_test(maker(parallel_env, name, settings)(), num_cycles=40)


@every_setting
def test_aec_api(name: str, settings: dict[str, Any]) -> None:
    api_test(maker(aec_env, name, settings)(), num_cycles=40)


@every_setting
def test_seeds(name: str, settings: dict[str, Any]) -> None:
    parallel_seed_test(maker(parallel_env, name, settings), num_cycles=20)
    seed_test(maker(aec_env, name, settings), num_cycles=20)


def odd_room(agents: int = 3) -> Any:
    return parallel_env("tests.toy:Rooms", agents=agents)


def test_a_group_plays_one_task_and_agents_that_finish_leave() -> None:
    env = odd_room()
    observations, infos = env.reset(options={"task": "train-1"})
    assert len(set(observations.values())) == 1
    assert {info["task_id"] for info in infos.values()} == {"train-1"}
    acts = {"agent_0": "knock", "agent_1": "take key", "agent_2": "sing"}
    _, rewards, ended, cut, infos = env.step(acts)
    assert rewards == {"agent_0": 0.0, "agent_1": 1.0, "agent_2": 0.0}
    assert ended == {"agent_0": False, "agent_1": True, "agent_2": False}
    assert not any(cut.values())
    assert infos["agent_1"]["won"]
    assert env.agents == ["agent_0", "agent_2"]
    seen, rewards, *_ = env.step(dict.fromkeys(env.agents, "take key"))
    assert rewards == {"agent_0": 1.0, "agent_2": 1.0}
    assert set(seen) == {"agent_0", "agent_2"}
    assert env.agents == []


def test_a_seed_draws_the_same_task_for_the_whole_group() -> None:
    env = odd_room(8)
    for seed in range(4):
        _, infos = env.reset(seed=seed)
        assert len({info["task_id"] for info in infos.values()}) == 1


def test_each_agent_of_a_group_is_as_it_would_be_alone() -> None:
    env, alone = odd_room(2), make("tests.toy:Rooms")
    env.reset(options={"task": "train-0"})
    alone.reset(options={"task": "train-0"})
    for action in ("go", "sing", "go", "go"):
        seen, rewards, _, cut, infos = env.step({"agent_0": action, "agent_1": "knock"})
        expected, reward, _, truncated, info = alone.step(action)
        assert (seen["agent_0"], rewards["agent_0"], cut["agent_0"]) == (
            expected,
            reward,
            truncated,
        )
        assert infos["agent_0"]["rubric"]["fired"] == info["rubric"]["fired"]


def test_only_the_role_on_turn_acts() -> None:
    env = parallel_env("alfworld", team="alfworld_planner")
    _, infos = env.reset(seed=0)
    assert infos["planner"]["on_turn"]
    assert not infos["executor"]["on_turn"]
    seen, _, _, _, infos = env.step({"planner": "look around", "executor": "inventory"})
    assert infos["executor"]["on_turn"]
    assert "planner: look around" in seen["executor"]
    assert "carrying" not in seen["executor"]
    seen, *_ = env.step({"planner": "look around", "executor": "inventory"})
    assert "carrying" in seen["executor"]


def test_a_role_gets_what_came_of_its_act_at_its_next_turn() -> None:
    env: Any = aec_env("alfworld", team="alfworld_planner")
    env.reset(seed=0)
    turns = []
    for agent in env.agent_iter():
        _, reward, terminated, truncated, info = env.last()
        if terminated or truncated:
            turns.append((agent, reward, info["rubric"]["fired"]))
            env.step(None)
            continue
        if agent == "planner" and "rubric" in info:
            assert "heeded" in info["rubric"]["fired"]
        env.step(env.team_env.oracle_action())
    assert {agent for agent, _, _ in turns} == {"planner", "executor"}
    assert [reward for _, reward, _ in turns] == [1.0, 1.0]


class Paying(Rooms):
    """Pays a half for every step."""

    def take_action(self, action: str) -> Outcome:
        return super().take_action(action)._replace(reward=0.5)


TWO = Team.parse("roles: {agent_0: {acts: [all]}, other: {acts: [all]}}")


@pytest.mark.parametrize(
    ("settings", "expected"),
    [({"agents": 2}, [0.0, 0.5, 0.5, 0.5, 0.5]), ({"team": TWO}, [0.0, 1.0, 1.0])],
)
def test_a_turn_gives_the_rewards_since_the_last_action_of_the_agent(
    settings: dict[str, Any], expected: list[float]
) -> None:
    env = aec_env(Paying, **settings)
    env.reset(seed=0)
    rewards = []
    for agent in env.agent_iter():
        _, reward, terminated, truncated, _ = env.last()
        rewards.append((agent, reward))
        env.step(None if terminated or truncated else "sing")
    assert [reward for agent, reward in rewards if agent == "agent_0"] == expected


def test_agents_or_a_team_must_be_given() -> None:
    for wrong in ({}, {"agents": 2, "team": "alfworld_planner"}):
        with pytest.raises(ValueError, match="either agents"):
            parallel_env("alfworld", **wrong)
    with pytest.raises(ValueError, match="agents is 0"):
        parallel_env("alfworld", agents=0)
