"""The environments that RLlib plays with several agents, by RLlib's own check and episodes."""

from __future__ import annotations

from typing import Any

import pytest
from ray.rllib.env.multi_agent_episode import MultiAgentEpisode
from ray.rllib.env.wrappers.pettingzoo_env import ParallelPettingZooEnv
from ray.rllib.utils.pre_checks.env import check_multiagent_environments

from trca.algorithms.rollouts.multi_agent_env import TextMultiAgentEnv
from trca.envs import parallel_env

SETTINGS: list[dict[str, Any]] = [
    *({"env": name, "agents": 3} for name in ("alfworld", "webshop", "searchqa")),
    {"env": "alfworld", "team": "alfworld_planner"},
    {"env": "webshop", "team": "webshop_planner"},
    {"env": "searchqa", "team": "searchqa_searcher"},
]
every_setting = pytest.mark.parametrize(
    "settings", SETTINGS, ids=lambda s: "-".join(map(str, s.values()))
)


def episode_of(env: Any, act: Any, **reset: Any) -> MultiAgentEpisode:
    """Plays an episode into RLlib's own record of one."""
    episode = MultiAgentEpisode(
        observation_space=env.observation_spaces,
        action_space=env.action_spaces,
        agent_to_module_mapping_fn=lambda agent, *_, **__: agent,
    )
    observations, infos = env.reset(**reset)
    episode.add_env_reset(observations=observations, infos=infos)
    while not episode.is_done:
        actions = {agent: act(agent) for agent in observations if agent in env.agents}
        observations, rewards, ended, cut, infos = env.step(actions)
        episode.add_env_step(
            observations, actions, rewards, infos, terminateds=ended, truncateds=cut
        )
    return episode


@every_setting
def test_rllibs_check_passes(settings: dict[str, Any]) -> None:
    check_multiagent_environments(TextMultiAgentEnv({**settings, "max_steps": 4}))


@every_setting
def test_rllibs_wrapper_takes_the_parallel_environment(settings: dict[str, Any]) -> None:
    rest = {k: v for k, v in settings.items() if k != "env"}
    env = ParallelPettingZooEnv(parallel_env(settings["env"], max_steps=4, **rest))
    check_multiagent_environments(env)


@pytest.mark.parametrize("settings", SETTINGS[3:], ids=lambda s: str(s["team"]))
def test_an_episode_of_rllib_holds_a_teams_turns(settings: dict[str, Any]) -> None:
    env = TextMultiAgentEnv(settings)
    oracle = env._env.unwrapped.team_env.oracle_action
    episode = episode_of(env, lambda agent: oracle(), seed=0)
    assert episode.is_terminated
    for agent in env.possible_agents:
        agent_episode = episode.agent_episodes[agent]
        assert agent_episode.get_return() == 1.0
        assert agent_episode.is_terminated
        assert len(agent_episode) >= 1


def test_an_agent_of_a_group_that_finishes_leaves() -> None:
    env = TextMultiAgentEnv({"env": "tests.toy:Rooms", "agents": 2})
    script = {"agent_0": ["take key"], "agent_1": ["sing", "knock", "take key"]}
    episode = episode_of(env, lambda agent: script[agent].pop(0), options={"task": "train-1"})
    assert [len(episode.agent_episodes[a]) for a in env.possible_agents] == [1, 3]
    assert [episode.agent_episodes[a].get_return() for a in env.possible_agents] == [1.0, 1.0]


def test_an_environment_must_be_named() -> None:
    with pytest.raises(ValueError, match="no env"):
        TextMultiAgentEnv({"agents": 2})
