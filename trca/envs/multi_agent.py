"""PettingZoo environments for several agents: a rollout group or the roles of a team.

::

    env = trca.envs.parallel_env("alfworld", agents=4)             # 4 agents, a copy each of a task
    env = trca.envs.aec_env("searchqa", team="searchqa_searcher")  # the roles of a team, in turns

A rollout group has N agents, ``agent_0`` to ``agent_{N-1}``. Each agent plays a separate copy of
the same task. An agent leaves when its episode ends; the remaining agents continue. The roles of a
team share one episode and its rewards, and leave together. A parallel environment ignores the
action of a role without a turn; ``infos[role]["on_turn"]`` marks the role with the turn.

Observations are strings with a ``dtype`` attribute, which PettingZoo's tests require.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from pettingzoo import AECEnv, ParallelEnv

from trca.envs.registration import EnvClass, make
from trca.envs.teams.env import TeamEnv
from trca.envs.teams.team import Team
from trca.envs.text_env import UNPARSED
from trca.envs.text_space import AnyText

Results = dict[str, tuple[float, bool, bool]]
"""Reward, terminated and truncated by agent, for the agents that an action affects."""
Infos = dict[str, dict[str, Any]]


class Seen(str):
    """An observation: a string with the ``dtype`` of its space."""

    dtype = np.dtype(str)
    __slots__ = ()


class Agents(ABC):
    """Agents that play at the same time: the common interface of groups and teams.

    Attributes:
        possible: All agents, in order.
        live: The agents whose episodes have not ended.
    """

    possible: tuple[str, ...]
    live: list[str]

    @abstractmethod
    def reset(self, seed: int | None, options: dict[str, Any] | None) -> None:
        """Starts an episode for every agent."""

    @abstractmethod
    def acting(self) -> list[str]:
        """The live agents that may act now."""

    @abstractmethod
    def act(self, agent: str, action: str) -> Results:
        """Carries out the action of an agent.

        Args:
            agent: An agent of `acting`.
            action: Its action.

        Returns:
            The results of the affected agents. Agents whose episodes end leave `live`.
        """

    def act_all(self, actions: Mapping[str, str]) -> Results:
        """Carries out one action per agent of `acting`. A missing action counts as empty."""
        results: Results = {}
        for agent in self.acting():
            results |= self.act(agent, actions.get(agent, UNPARSED))
        return results

    @abstractmethod
    def observe(self, agent: str) -> tuple[str, dict[str, Any]]:
        """The last observation and ``info`` of an agent."""

    @abstractmethod
    def render(self) -> str:
        """The transcript so far as text."""

    @abstractmethod
    def close(self) -> None:
        """Closes the environments."""


class _Group(Agents):
    """N agents that play separate copies of the same task."""

    def __init__(self, env: EnvClass, count: int, **kwargs: Any) -> None:
        if count < 1:
            raise ValueError(f"agents is {count}: give 1 or more")
        self.possible = tuple(f"agent_{number}" for number in range(count))
        self.live = []
        self._envs = {agent: make(env, **kwargs) for agent in self.possible}
        self._seen: dict[str, tuple[str, dict[str, Any]]] = {}

    def reset(self, seed: int | None, options: dict[str, Any] | None) -> None:
        self.live = list(self.possible)
        options = dict(options or {})
        for agent, env in self._envs.items():
            self._seen[agent] = env.reset(seed=seed, options=options)
            options["task"] = self._seen[agent][1]["task_id"]  # the draw of the first agent

    def acting(self) -> list[str]:
        return list(self.live)

    def act(self, agent: str, action: str) -> Results:
        seen, reward, terminated, truncated, info = self._envs[agent].step(action)
        self._seen[agent] = seen, info
        if terminated or truncated:
            self.live.remove(agent)
        return {agent: (float(reward), bool(terminated), bool(truncated))}

    def observe(self, agent: str) -> tuple[str, dict[str, Any]]:
        return self._seen[agent]

    def render(self) -> str:
        parts = [f"== {agent} ==\n{env.render()}" for agent, env in self._envs.items()]
        return "\n\n".join(parts)

    def close(self) -> None:
        for env in self._envs.values():
            env.close()


class _Team(Agents):
    """The roles of a team. The role with the turn acts, and all roles get the reward."""

    def __init__(self, env: EnvClass, team: str | Path | Team, **kwargs: Any) -> None:
        wrapped: Any = make(env, team=team, **kwargs)
        self._env: TeamEnv = wrapped.unwrapped
        self.possible = self._env.agents
        self.live = []
        self._last: dict[str, Any] = {}
        self._ended: Infos = {}

    def reset(self, seed: int | None, options: dict[str, Any] | None) -> None:
        self.live = list(self.possible)
        self._env.reset(seed=seed, options=options)
        self._last, self._ended = {}, {}

    def acting(self) -> list[str]:
        return [self._env.agent] if self.live else []

    def act(self, agent: str, action: str) -> Results:
        _, reward, terminated, truncated, info = self._env.step(action)
        names = ("context", "next_context", "parsed", "accepted", "facts", "rubric")
        for ended in info["closed"]:
            values = {name: getattr(ended, name) for name in names}
            if ended.rubric is None:
                del values["rubric"]
            self._ended[ended.agent] = values
        if terminated or truncated:
            self._last = {k: info[k] for k in ("won", "score", "measures") if k in info}
            self.live = []
        return dict.fromkeys(self.possible, (reward, terminated, truncated))

    def observe(self, agent: str) -> tuple[str, dict[str, Any]]:
        """The observation and ``info`` of a role, with the keys of its last ended transition."""
        info = self._env.info_of(agent) | self._last | self._ended.get(agent, {})
        return self._env.observe(agent), info | {"on_turn": agent in self.acting()}

    def render(self) -> str:
        return self._env.render() or ""

    def close(self) -> None:
        self._env.close()


def make_agents(
    env: EnvClass,
    agents: int | None = None,
    team: str | Path | Team | None = None,
    render_mode: str | None = None,
    **kwargs: Any,
) -> Agents:
    """Makes a rollout group or the roles of a team; arguments as in `parallel_env`.

    Raises:
        ValueError: If both or neither of ``agents`` and ``team`` are set, or for fewer than one
            agent.
    """
    if (agents is None) == (team is None):
        raise ValueError("set either agents (for a rollout group) or team")
    if render_mode is not None:
        kwargs["render_mode"] = render_mode
    return _Group(env, agents or 0, **kwargs) if team is None else _Team(env, team, **kwargs)


class _Spaces:
    """The methods that both PettingZoo classes share."""

    metadata: dict[str, Any] = {  # noqa: RUF012 (as in PettingZoo)
        "name": "trca_v0",
        "render_modes": ["ansi"],
        "is_parallelizable": True,
    }

    def __init__(self, agents: Agents, render_mode: str | None) -> None:
        self._core = agents
        self.possible_agents = list(agents.possible)
        self.agents: list[str] = []
        self.render_mode = render_mode
        self.observation_spaces = {agent: AnyText() for agent in agents.possible}
        self.action_spaces = {agent: AnyText() for agent in agents.possible}

    def observation_space(self, agent: str) -> AnyText:
        """The space of an agent's observations: every string."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> AnyText:
        """The space of an agent's actions: every string."""
        return self.action_spaces[agent]

    def render(self) -> str | None:
        """The transcript so far as text, in render mode ``ansi``."""
        return None if self.render_mode is None else self._core.render()

    def close(self) -> None:
        """Closes the environments."""
        self._core.close()


class ParallelTextEnv(_Spaces, ParallelEnv[str, str, str]):  # type: ignore[misc]
    """A parallel environment: all agents act at once. See the module docstring."""

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, str], Infos]:
        """Starts an episode. ``options={"task": task_id}`` names the task."""
        self._core.reset(seed, options)
        self.agents = list(self._core.live)
        return self._observed(self.agents)

    def step(
        self, actions: dict[str, str]
    ) -> tuple[dict[str, str], dict[str, float], dict[str, bool], dict[str, bool], Infos]:
        """Carries out the actions. A missing action of a live agent counts as empty."""
        before = self.agents
        results = dict.fromkeys(before, (0.0, False, False)) | self._core.act_all(actions)
        rewards = {agent: reward for agent, (reward, _, _) in results.items()}
        ended = {agent: terminated for agent, (_, terminated, _) in results.items()}
        cut = {agent: truncated for agent, (_, _, truncated) in results.items()}
        self.agents = list(self._core.live)
        observations, infos = self._observed(before)
        return observations, rewards, ended, cut, infos

    def _observed(self, agents: list[str]) -> tuple[dict[str, str], Infos]:
        seen = {agent: self._core.observe(agent) for agent in agents}
        return {k: Seen(v[0]) for k, v in seen.items()}, {k: v[1] for k, v in seen.items()}


class TurnTextEnv(_Spaces, AECEnv[str, str, str]):  # type: ignore[misc]
    """An environment of turns: one agent acts at a time. See the module docstring.

    ``last()`` returns an agent's observation and its rewards since its last action.
    """

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Starts an episode. ``options={"task": task_id}`` names the task."""
        self._core.reset(seed, options)
        self.agents = list(self._core.live)
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos = {agent: self._core.observe(agent)[1] for agent in self.agents}
        self.agent_selection = self._core.acting()[0]

    def observe(self, agent: str) -> str:
        """The last observation of an agent."""
        return Seen(self._core.observe(agent)[0])

    def step(self, action: str | None) -> None:
        """Carries out the action of the selected agent; None for an agent that has finished."""
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        self._cumulative_rewards[agent] = 0.0
        self.rewards = dict.fromkeys(self.agents, 0.0)
        results = self._core.act(agent, UNPARSED if action is None else action)
        for affected, (reward, terminated, truncated) in results.items():
            self.rewards[affected] = reward
            self.terminations[affected], self.truncations[affected] = terminated, truncated
        self.infos = {affected: self._core.observe(affected)[1] for affected in self.agents}
        self._accumulate_rewards()
        if acting := self._core.acting():  # the next agent in the order of all agents
            place = self.possible_agents.index(agent) + 1
            order = self.possible_agents[place:] + self.possible_agents[:place]
            self.agent_selection = next(each for each in order if each in acting)
        self._deads_step_first()


def parallel_env(
    env: EnvClass,
    *,
    agents: int | None = None,
    team: str | Path | Team | None = None,
    render_mode: str | None = None,
    **kwargs: Any,
) -> ParallelTextEnv:
    """Makes a PettingZoo parallel environment.

    Args:
        env: The environment, as in `trca.envs.make`.
        agents: Number of agents of a rollout group; None for a team.
        team: Name or path of a team; None for a group.
        render_mode: With ``ansi``, ``render`` returns the transcript of the episode as text.
        kwargs: Arguments of `trca.envs.make`.
    """
    return ParallelTextEnv(make_agents(env, agents, team, render_mode, **kwargs), render_mode)


def aec_env(
    env: EnvClass,
    *,
    agents: int | None = None,
    team: str | Path | Team | None = None,
    render_mode: str | None = None,
    **kwargs: Any,
) -> TurnTextEnv:
    """Makes a PettingZoo AEC environment (agents act in turns); arguments as in `parallel_env`."""
    return TurnTextEnv(make_agents(env, agents, team, render_mode, **kwargs), render_mode)
