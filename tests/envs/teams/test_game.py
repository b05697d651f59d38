"""Games: each role of a team has its own reward and outcome."""

import math
import warnings
from pathlib import Path
from typing import Any

import pytest
from pettingzoo.test import api_test, parallel_api_test

from tests.stones import TEAM, Stones
from trca.envs import Outcome, aec_env, make, parallel_env
from trca.envs.teams.team import Team


@pytest.fixture
def team(tmp_path: Path) -> str:
    path = tmp_path / "team.yaml"
    path.write_text(TEAM)
    return str(path)


def played(team: str | Team, task: str, *actions: str, **settings: Any) -> list[Any]:
    env: Any = make(Stones, team=team, **settings)
    env.reset(options={"task": task})
    return [env.step(action) for action in actions]


def test_the_last_stone_wins_for_one_role_and_loses_for_the_other(team: str) -> None:
    *early, (_, reward, terminated, _, info) = played(team, "4", "sing", "go", "go")
    assert [step[1] for step in early] == [0, 0]
    assert not any(result.won for step in early for result in step[-1]["roles"].values())
    assert (reward, terminated, info["won"]) == (1, True, True)
    assert info["roles"]["first"] == (1, True, 1)
    assert info["roles"]["second"] == (-1, False, 0)
    assert {ended.agent: ended.reward for ended in info["closed"]} == {"first": 1, "second": -1}


def test_a_role_that_breaks_the_rules_gives_the_other_the_game(team: str) -> None:
    *_, (_, reward, _, _, info) = played(team, "4", "sing", "go", "sing")
    assert (reward, info["won"], info["score"]) == (-1, False, 0)
    assert info["roles"]["second"] == (1, True, 1)
    assert {ended.agent: ended.reward for ended in info["closed"]} == {"first": -1, "second": 1}


def test_nobody_wins_a_game_that_the_step_limit_ends(team: str) -> None:
    *_, (_, _, terminated, truncated, info) = played(team, "8", "go", "go", max_steps=2)
    assert (terminated, truncated) == (False, True)
    assert not any(result.won for result in info["roles"].values())


def test_a_message_keeps_the_score_of_each_role(monkeypatch: pytest.MonkeyPatch) -> None:
    middle = Outcome("", reward=0.5, rewards={"first": 0.5, "second": -0.5})
    monkeypatch.setattr(Stones, "take_action", lambda self, action: middle)
    speakers = Team.parse(TEAM.replace("acts: [all]", "acts: [all], speaks: true"))
    *_, (_, reward, _, _, info) = played(speakers, "4", "go", "tell[hello]")
    assert (reward, info["score"]) == (0.0, 0.0)
    assert info["roles"] == {"first": (0.0, False, 0.5), "second": (0.0, False, 0.0)}


@pytest.mark.parametrize("isolation", ["none", "process"])
def test_roles_of_other_names_than_the_environments_are_refused(team: str, isolation: str) -> None:
    with pytest.raises(ValueError, match="rewards to black, white, and the roles of the team are"):
        played(team, "4", "go", roles=("black", "white"), isolation=isolation)


def test_rewards_are_finite(team: str, monkeypatch: pytest.MonkeyPatch) -> None:
    endless = Outcome("", rewards={"first": math.inf, "second": 0.0})
    monkeypatch.setattr(Stones, "take_action", lambda self, action: endless)
    with pytest.raises(ValueError, match=r"inf.*must be finite"):
        played(team, "4", "go")


def test_pettingzoo_gets_the_rewards_of_each_role(team: str) -> None:
    env = aec_env(Stones, team=team)
    env.reset(options={"task": "2"})
    env.step("go")
    assert env.rewards == {"first": 0, "second": 0}
    env.step("go")
    assert env.rewards == {"first": -1, "second": 1}
    assert {agent: info["won"] for agent, info in env.infos.items()} == {
        "first": False,
        "second": True,
    }
    assert env.last()[1] == env._cumulative_rewards[env.agent_selection]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        api_test(aec_env(Stones, team=team, render_mode=None), num_cycles=40)
        parallel_api_test(parallel_env(Stones, team=team), num_cycles=40)
