"""RLlib's multi-agent environment of a team or a rollout group.

::

    from trca.algorithms.rollouts.multi_agent_env import TextMultiAgentEnv

    team = {"env": "alfworld", "team": "alfworld_planner"}
    config.environment(TextMultiAgentEnv, env_config=team)
    config.multi_agent(
        policies={"planner", "executor"}, policy_mapping_fn=lambda agent, *_, **__: agent
    )

RLlib's default models do not read text: the config needs an `RLModule` that does.
The algorithms of this package do not use it: they train a team with ``env_config: {team: ...}``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ray.rllib.env.multi_agent_env import MultiAgentEnv

from trca.envs.multi_agent import parallel_env
from trca.envs.text_space import AnyText

_ALL = "__all__"


class TextMultiAgentEnv(MultiAgentEnv):
    """Agents that act on text. As in RLlib, only the agents that may act get observations.

    An agent gets a reward in the step of the environment's reward; RLlib adds up the rewards
    between two observations of an agent. A finished agent leaves.
    """

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        """Makes the agents.

        Args:
            config: ``env``, and the arguments of `trca.envs.parallel_env`: ``agents`` or ``team``,
                and arguments of `trca.envs.make`.

        Raises:
            ValueError: Without ``env``, and unless exactly one of agents and team is given.
        """
        super().__init__()  # type: ignore[no-untyped-call]
        settings = dict(config or {})
        if "env" not in settings:
            raise ValueError("env_config has no env: give one, such as 'alfworld'")
        self._env: Any = parallel_env(settings.pop("env"), **settings)
        self.possible_agents = list(self._env.possible_agents)
        self.agents = list(self.possible_agents)
        self.observation_spaces = {agent: AnyText() for agent in self.possible_agents}
        self.action_spaces = {agent: AnyText() for agent in self.possible_agents}

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[Any, Any], dict[Any, Any]]:
        """Starts an episode: ``options={"task": task_id}`` names the task."""
        observations, infos = self._env.reset(seed=seed, options=options)
        self.agents = list(self._env.agents)
        return self._shown(observations, infos)

    def step(  # type: ignore[override]
        self, action_dict: dict[Any, Any]
    ) -> tuple[dict[Any, Any], dict[Any, Any], dict[Any, Any], dict[Any, Any], dict[Any, Any]]:
        """Takes the actions of the agents that may act; a missing action is an empty text."""
        observations, rewards, ended, cut, infos = self._env.step(action_dict)
        self.agents = list(self._env.agents)
        over = not self.agents
        ended = {**ended, _ALL: over and any(ended.values())}
        cut = {**cut, _ALL: over and not ended[_ALL]}
        observations, infos = self._shown(observations, infos)
        return observations, rewards, ended, cut, infos

    def render(self) -> Any:
        """The episode so far as text, with ``render_mode: ansi``."""
        return self._env.render()

    def close(self) -> None:
        """Closes the environments."""
        self._env.close()

    def _shown(
        self, observations: dict[str, str], infos: dict[str, dict[str, Any]]
    ) -> tuple[dict[str, str], dict[str, dict[str, Any]]]:
        """The observations of finished agents and of agents that may act."""
        shown = [
            agent
            for agent in observations
            if agent not in self.agents or infos[agent].get("on_turn", True)
        ]
        return {k: observations[k] for k in shown}, {k: infos[k] for k in shown}
