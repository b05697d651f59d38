"""PettingZoo environments for several agents: a rollout group or the roles of a team.

::

    env = trca.envs.parallel_env("alfworld", agents=4)             # 4 agents, a copy each of a task
    env = trca.envs.aec_env("searchqa", team="searchqa_searcher")  # the roles of a team, in turns

A rollout group has N agents, ``agent_0`` to ``agent_{N-1}``. Each agent plays a separate copy of
the same task. An agent leaves when its episode ends; the remaining agents continue. The roles of a
team share one episode and leave together; they also share its rewards, except in a game. A parallel
environment ignores the action of a role without a turn; ``infos[role]["on_turn"]`` marks the role
with the turn.

Observations are strings with a ``dtype`` attribute, which PettingZoo's tests require.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from pettingzoo import AECEnv, ParallelEnv
from pettingzoo.utils.conversions import aec_to_parallel_wrapper, parallel_to_aec

from trca.envs.registration import EnvClass, make
from trca.envs.teams.env import TeamEnv
from trca.envs.teams.team import Team
from trca.envs.text_env import UNPARSED
from trca.envs.text_space import AnyText

Infos = dict[str, dict[str, Any]]
Transitions = tuple[dict[str, str], dict[str, float], dict[str, bool], dict[str, bool], Infos]
"""Observation, reward, terminated, truncated and ``info`` by agent."""


class Seen(str):
    """An observation: a string with the ``dtype`` of its space."""

    dtype = np.dtype(str)
    __slots__ = ()


class _Agents:
    """The agents and spaces of both classes."""

    metadata: dict[str, Any] = {  # noqa: RUF012 (as in PettingZoo)
        "name": "trca_v0",
        "render_modes": ["ansi"],
        "is_parallelizable": True,
    }

    def __init__(self, agents: list[str], render_mode: str | None) -> None:
        self.possible_agents = agents
        self.agents: list[str] = []
        self.render_mode = render_mode
        self.observation_spaces = {agent: AnyText() for agent in agents}
        self.action_spaces = {agent: AnyText() for agent in agents}

    def observation_space(self, agent: str) -> AnyText:
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> AnyText:
        return self.action_spaces[agent]


class GroupEnv(_Agents, ParallelEnv[str, str, str]):  # type: ignore[misc]
    """A rollout group: N agents that play separate copies of the same task at once."""

    def __init__(self, envs: list[gymnasium.Env[str, str]], render_mode: str | None) -> None:
        if not envs:
            raise ValueError(f"agents is {len(envs)}: give 1 or more")
        self._envs = {f"agent_{number}": env for number, env in enumerate(envs)}
        super().__init__(list(self._envs), render_mode)

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, str], Infos]:
        """Starts the same task for all agents: the options' task, or the first agent's draw."""
        self.agents = list(self.possible_agents)
        options, observations, infos = dict(options or {}), dict[str, str](), Infos()
        for agent, env in self._envs.items():
            text, infos[agent] = env.reset(seed=seed, options=options)
            observations[agent] = Seen(text)
            options["task"] = infos[agent]["task_id"]
        return observations, infos

    def step(self, actions: Mapping[str, str | None]) -> Transitions:
        """Carries out the actions. A missing action of a live agent counts as empty."""
        given = {agent: actions.get(agent) for agent in self.agents}
        results = {a: self._envs[a].step(UNPARSED if t is None else t) for a, t in given.items()}
        self.agents = [a for a, (_, _, ended, cut, _) in results.items() if not (ended or cut)]
        return (
            {agent: Seen(text) for agent, (text, *_) in results.items()},
            {agent: float(reward) for agent, (_, reward, *_) in results.items()},
            {agent: terminated for agent, (_, _, terminated, *_) in results.items()},
            {agent: truncated for agent, (*_, truncated, _) in results.items()},
            {agent: info for agent, (*_, info) in results.items()},
        )

    def render(self) -> str | None:
        """The transcripts of all agents, one after another, in render mode ``ansi``."""
        if self.render_mode is None:
            return None
        parts = [f"== {agent} ==\n{env.render()}" for agent, env in self._envs.items()]
        return "\n\n".join(parts)

    def close(self) -> None:
        """Closes all environments."""
        for env in self._envs.values():
            env.close()


class TeamTurnsEnv(_Agents, AECEnv[str, str, str]):  # type: ignore[misc]
    """A team: one role acts at a time, and each role gets its rewards.

    ``last()`` returns a role's observation and its rewards since its last action. ``infos`` have
    the keys of the role's last ended transition.
    """

    def __init__(self, team_env: TeamEnv, render_mode: str | None) -> None:
        super().__init__(list(team_env.agents), render_mode)
        self.team_env = team_env

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Starts an episode. ``options={"task": task_id}`` names the task."""
        self.team_env.reset(seed=seed, options=options)
        self.agents = list(self.possible_agents)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self._ended: Infos = {}
        self._share(False, False, {})

    def observe(self, agent: str) -> str:
        """The current observation of a role."""
        return Seen(self.team_env.observe(agent))

    def step(self, action: str | None) -> None:
        """Carries out the action of the selected role; None for a role that has finished."""
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        self._cumulative_rewards[agent] = 0.0
        _, _, terminated, truncated, info = self.team_env.step(
            UNPARSED if action is None else action
        )
        names = ("context", "next_context", "parsed", "accepted", "facts", "rubric")
        for ended in info["closed"]:
            values = {name: getattr(ended, name) for name in names}
            if ended.rubric is None:
                del values["rubric"]
            self._ended[ended.agent] = values
        self._share(terminated, truncated, info)
        self._accumulate_rewards()
        self._deads_step_first()

    def _share(self, terminated: bool, truncated: bool, info: Mapping[str, Any]) -> None:
        """Gives the result of a step to all roles."""
        over, results = terminated or truncated, info.get("roles", {})
        self.agent_selection = self.team_env.agent
        self.rewards = {a: results[a].reward if results else 0.0 for a in self.agents}
        self.terminations = dict.fromkeys(self.agents, terminated)
        self.truncations = dict.fromkeys(self.agents, truncated)
        measures = {"measures": info["measures"]} if "measures" in info else {}
        last = {a: {"won": each.won, "score": each.score} | measures for a, each in results.items()}
        self.infos = {
            agent: self.team_env.info_of(agent)
            | (last[agent] if over else {})
            | self._ended.get(agent, {})
            | {"on_turn": agent == self.agent_selection and not over}
            for agent in self.agents
        }

    def render(self) -> str | None:
        """The transcript of the team, in render mode ``ansi``."""
        return self.team_env.render()

    def close(self) -> None:
        """Closes the environment."""
        self.team_env.close()


class TeamStepsEnv(aec_to_parallel_wrapper):  # type: ignore[misc]
    """A team as a parallel environment: a step takes the action of the role with the turn.

    PettingZoo's conversion needs roles that act once in each cycle.
    """

    agents: list[str]

    def step(self, actions: Mapping[str, str]) -> Transitions:
        """Carries out the action of the role with the turn. A missing action counts as empty."""
        turns, agents = self.aec_env, self.agents
        if not agents:
            return {}, {}, {}, {}, {}
        turns.step(actions.get(turns.agent_selection, UNPARSED))
        over = turns.terminations[agents[0]] or turns.truncations[agents[0]]
        self.agents = [] if over else agents
        observations = {agent: turns.observe(agent) for agent in agents}
        return observations, turns.rewards, turns.terminations, turns.truncations, turns.infos


def parallel_env(
    env: EnvClass,
    *,
    agents: int | None = None,
    team: str | Path | Team | None = None,
    render_mode: str | None = None,
    **kwargs: Any,
) -> ParallelEnv[str, str, str]:
    """Makes a PettingZoo parallel environment.

    Args:
        env: The environment, as in `trca.envs.make`.
        agents: Number of agents of a rollout group; None for a team.
        team: Name or path of a team; None for a group.
        render_mode: With ``ansi``, ``render`` returns the transcript of the episode as text.
        kwargs: Arguments of `trca.envs.make`.

    Raises:
        ValueError: If both or neither of ``agents`` and ``team`` are set, or for fewer than one
            agent.
    """
    if (agents is None) == (team is None):
        raise ValueError("set either agents (for a rollout group) or team")
    if render_mode is not None:
        kwargs["render_mode"] = render_mode
    if agents is not None:
        return GroupEnv([make(env, **kwargs) for _ in range(agents)], render_mode)
    team_env: Any = make(env, team=team, **kwargs).unwrapped
    return TeamStepsEnv(TeamTurnsEnv(team_env, render_mode))


def aec_env(env: EnvClass, **kwargs: Any) -> AECEnv[str, str, str]:
    """Makes a PettingZoo AEC environment (agents act in turns); arguments as in `parallel_env`."""
    return parallel_to_aec(parallel_env(env, **kwargs))
