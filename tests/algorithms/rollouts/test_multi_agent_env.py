"""RLlib's own wrappers take the PettingZoo environments of teams and rollout groups."""

from __future__ import annotations

from typing import Any

import pytest
from ray.rllib.env.multi_agent_env import MultiAgentEnv
from ray.rllib.env.multi_agent_episode import MultiAgentEpisode
from ray.rllib.env.wrappers.pettingzoo_env import ParallelPettingZooEnv, PettingZooEnv
from ray.rllib.utils.pre_checks.env import check_multiagent_environments

from trca.envs import aec_env, parallel_env

GROUPS = ("alfworld", "webshop", "searchqa")
TEAMS = {
    "alfworld": "alfworld_planner",
    "webshop": "webshop_planner",
    "searchqa": "searchqa_searcher",
}


def episode_of(env: MultiAgentEnv, act: Any, **reset: Any) -> MultiAgentEpisode:
    """Plays an episode into RLlib's own record of one."""
    episode = MultiAgentEpisode(
        observation_space=env.observation_spaces,
        action_space=env.action_spaces,
        agent_to_module_mapping_fn=lambda agent, *_, **__: agent,
    )
    observations, infos = env.reset(**reset)
    episode.add_env_reset(observations=observations, infos=infos)
    while not episode.is_done:
        actions = {agent: act(agent) for agent in observations}
        observations, rewards, ended, cut, infos = env.step(actions)
        episode.add_env_step(
            observations, actions, rewards, infos, terminateds=ended, truncateds=cut
        )
    return episode


@pytest.mark.parametrize("name", GROUPS)
def test_a_rollout_group_passes_rllibs_check(name: str) -> None:
    check_multiagent_environments(ParallelPettingZooEnv(parallel_env(name, agents=3, max_steps=4)))


@pytest.mark.parametrize("name", TEAMS)
def test_an_episode_of_rllib_holds_a_teams_turns(name: str) -> None:
    turns = aec_env(name, team=TEAMS[name])
    env = PettingZooEnv(turns)
    check_multiagent_environments(env)
    oracle = turns.unwrapped.team_env.oracle_action
    episode = episode_of(env, lambda agent: oracle(), seed=0)
    assert episode.is_terminated
    for agent in env.possible_agents:
        agent_episode = episode.agent_episodes[agent]
        assert agent_episode.get_return() == 1.0
        assert agent_episode.is_terminated
        assert len(agent_episode) >= 1
