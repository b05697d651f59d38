"""`TeamEnv`: the roles of a team play one environment in turns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded

from trca.envs.annotate import RubricAnnotation
from trca.envs.panel import Panel
from trca.envs.teams.judging import OpenTransition, RoleJudges, RoleTransition, role_operators
from trca.envs.teams.messages import Message, ShownNames, clean, names_in
from trca.envs.teams.team import TELL, Role, Team
from trca.envs.text_env import TextEnv, as_action, filled
from trca.rubric import Budgets
from trca.rubric.rewards import DEFAULT_LAMBDA

__all__ = ["RoleResult", "RoleTransition", "TeamEnv", "role_operators"]

_NOT_ALLOWED: Final = "not allowed"
"""Garbage that replaces an action without permission before it reaches the environment."""


class RoleResult(NamedTuple):
    """What a role got from a step."""

    reward: float
    won: bool
    score: float


class TeamEnv(TextEnv):
    """Plays a text environment in turns; `trca.envs.teams.team` describes teams.

    The role with the turn gets the observation and, in ``info``, ``task``, ``admissible_actions``
    and ``memory``. ``info`` also contains ``agent`` (this role) and ``brief`` (its prompt). After a
    step, ``closed`` is a tuple of the `RoleTransition`s that ended with this step. Actions of the
    environment count as steps; messages do not. The episode is also truncated after `max_steps`
    rounds of turns. A turn that ends passes to the next role in the order of the team.

    The roles share reward, ``won`` and ``score``, unless the environment gives ``rewards`` by role.
    A role of such a game wins with a positive reward at the end, and its score is its reward, at
    least 0. ``roles`` in ``info`` has the `RoleResult` of each role. The step's ``reward``, ``won``
    and ``score`` are those of the role that acted.

    The role that acted gets the judgments of its transition. The environment's library judges
    actions; the library of `trca.envs.teams.messages` judges messages. A role has the operators of
    the libraries that can judge it, in ``operators``.
    """

    def __init__(
        self,
        team: Team | str | Path,
        env: gymnasium.Env[str, str],
        budgets: Budgets | Mapping[str, float] | None = None,
        lambda_: float = DEFAULT_LAMBDA,
    ) -> None:
        """Wraps an environment of `trca.envs.make` for a team, or the team of a name or path.

        Category budgets and ``lambda_`` set the rubric rewards in ``info``.
        """
        text_env: Any = env.unwrapped
        super().__init__(text_env.split, text_env.max_steps, text_env.render_mode)
        self.team = team if isinstance(team, Team) else Team.load(team)
        self.inner = env
        self._text_env: TextEnv = text_env
        self.env_id = text_env.env_id or type(text_env).__name__
        self.generated, self.waits = text_env.generated, text_env.waits
        self.open_actions = text_env.open_actions | {TELL}  # type: ignore[misc]
        self.idle_actions = text_env.idle_actions  # type: ignore[misc]
        library = env.judge.library if isinstance(env, RubricAnnotation) else None
        self._judges = RoleJudges(self.team, library)
        self.operators = self._judges.operators
        self.reward_by(budgets, lambda_)
        self._open: dict[str, OpenTransition] = {}
        self._view: tuple[str, dict[str, Any]] = ("", {})

    @classmethod
    def prefetch(cls, pairs: Sequence[tuple[TextEnv, str]]) -> None:
        """Calls the environments' ``prefetch`` for the actions that reach an environment."""
        by_class: dict[type[TextEnv], list[tuple[TextEnv, str]]] = {}
        for env, action in pairs:
            if isinstance(env, cls) and env._sent(action) == action:
                by_class.setdefault(type(env._text_env), []).append((env._text_env, action))
        for env_class, class_pairs in by_class.items():
            env_class.prefetch(class_pairs)

    @property
    def task_ids(self) -> tuple[str, ...]:
        """The task ids of the environment."""
        return self._text_env.task_ids

    @property
    def panel(self) -> Panel:
        """The panel of the environment, so that a team plays the same tasks as one agent."""
        return self._text_env.panel

    @property
    def agents(self) -> tuple[str, ...]:
        """The roles in the order of their turns."""
        return tuple(self.team.roles)

    @property
    def judging_s(self) -> float:
        """Seconds of judgments of the environment so far."""
        return self.inner.judging_s if isinstance(self.inner, RubricAnnotation) else 0.0

    @property
    def agent(self) -> str:
        """The role with the turn."""
        return self.agents[self._at]

    @property
    def instruction(self) -> str:
        """The task in words, whether or not the role sees it."""
        return self._text_env.instruction

    @property
    def task_type(self) -> str:
        """The type of the current task."""
        return self._text_env.task_type

    @property
    def admissible_actions(self) -> list[str]:
        """The admissible actions that the role with the turn sees."""
        return self._admissible(self.agent)

    def gold(self, task_id: str) -> Any:
        """The hidden truth of a task."""
        return self._text_env.gold(task_id)

    def oracle_action(self) -> str:
        """The action of the environment's oracle, in the form that the role may send."""
        return self._put(self._text_env.oracle_action())

    def demonstrator_action(self) -> str:
        """The action of the environment's demonstrator, in the form that the role may send."""
        return self._put(self._text_env.demonstrator_action())

    def demonstrator_subgoal(self) -> str:
        """The subgoal of the environment's demonstrator."""
        return self._text_env.demonstrator_subgoal()

    def random_action(self, rng: np.random.Generator) -> str:
        """A random action of the environment, in the form that the role may send."""
        return self._put(self._text_env.random_action(rng))

    def reward_by(
        self, budgets: Budgets | Mapping[str, float] | None, lambda_: float = DEFAULT_LAMBDA
    ) -> None:
        """Sets budgets and lambda from the next episode on."""
        self._judges.reward_by(budgets, lambda_)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Starts a task; see `TextEnv.reset`."""
        gymnasium.Env.reset(self, seed=seed)
        observation, info = self.inner.reset(seed=seed, options=options)
        self._task_id, self._over = str(info["task_id"]), False
        self._at = self._taken = self._rounds = 0
        self._open, self._messages = {}, dict[str, str]()
        self._view = observation, info
        self._last_results = dict.fromkeys(self.agents, RoleResult(0.0, False, 0.0))
        self._context = str(info["context"])
        sees = {name: role.sees_names_in for name, role in self.team.roles.items()}
        self._names = ShownNames(self.team.names, sees)
        self._show_state()
        self._log = [("", "", observation)]
        self._judges.reset()
        return self.observe(self.agent), self.info_of(self.agent)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Carries out one action or message of the role with the turn; see `TextEnv.step`."""
        self._check_started()
        if self._over:
            raise ResetNeeded("the episode is over: call reset() to start another")
        agent = self.agent
        action = as_action(action, self._admissible(agent))
        role = self.team.roles[agent]
        text = role.message(action)
        transition = self._open[agent] = OpenTransition(self._context, bool(action.strip()))
        terminated, truncated = False, False
        results = {name: last._replace(reward=0.0) for name, last in self._last_results.items()}
        if text is not None:
            transition.message = self._say(agent, text)
            transition.accepted = transition.message.text != ""
            self._pass_turn()
        else:
            observation, step_reward, terminated, truncated, info = self.inner.step(
                self._sent(action)
            )
            results = self._results(float(step_reward), bool(terminated), info)
            self._last_results = results
            transition.accepted = bool(info["accepted"]) and role.may(action)
            transition.facts, transition.rubric = info.get("facts"), info.get("rubric")
            self._view, self._context = (observation, info), str(info["next_context"])
            revealing = self._show_state()
            for name, each in self._open.items():
                each.reward += results[name].reward
            for message in self._heard_by(agent):
                message.acts.append((action, transition.accepted, revealing))
            self._taken += 1
            if self._taken >= role.turn:
                self._pass_turn()
        self._log.append((agent, action, self._view[0] if text is None else ""))
        if self._rounds >= self.max_steps and not terminated:
            truncated = True
        self._over = bool(terminated or truncated)
        measures = self._text_env.episode_measures() if self._over else {}
        ending = self.agents if self._over else (self.agent,)
        for message in () if self._over else self._heard_by(self.agent):
            message.read = True
        agent_info = self.info_of(self.agent)
        closed = tuple(
            self._close(name, agent_info if name == self.agent else self.info_of(name))
            for name in ending
            if name in self._open
        )
        info = agent_info | {
            "closed": closed,
            "context": transition.context,
            "next_context": self._context,
            "parsed": transition.parsed,
            "accepted": transition.accepted,
            "won": results[agent].won,
            "score": results[agent].score,
            "roles": results,
            **({"measures": measures} if measures else {}),
        }
        reward = results[agent].reward
        return self.observe(self.agent), reward, bool(terminated), bool(truncated), info

    def observe(self, agent: str) -> str:
        """The current observation of a role."""
        shown = [self._view[0]] if "observation" in self.team.roles[agent].sees else []
        return "\n".join([*shown, *self._lines(agent)])

    def info_of(self, agent: str) -> dict[str, Any]:
        """The current ``info`` of a role, with the parts that the role may see."""
        role = self.team.roles[agent]
        inner = self._view[1]
        instruction = self.instruction if "task" in role.sees else ""
        memory = [inner["memory"]] if "memory" in role.sees and inner["memory"] else []
        return {
            "task_id": inner["task_id"],
            "split": inner["split"],
            "task_type": inner["task_type"],
            "task": instruction,
            "admissible_actions": self._admissible(agent),
            "context": self._context,
            "memory": "\n".join([*memory, *self._lines(agent)]),
            "agent": agent,
            "brief": role.prompt.format(task=instruction),
            **({"tools": self._tools(role)} if "tools" in inner else {}),
        }

    def render(self) -> str | None:  # type: ignore[override]
        """The transcript so far as text, in render mode ``ansi``."""
        if self.render_mode is None:
            return None
        lines = [
            f"{a}> {action}\n{observation}" if a else observation
            for a, action, observation in self._log
        ]
        return "\n\n".join(line.rstrip() for line in lines)

    def close(self) -> None:
        """Closes the environment."""
        self.inner.close()

    def _sent(self, action: str) -> str:
        """The action that reaches the environment; empty for a message."""
        role = self.team.roles[self.agent]
        if role.message(action) is not None:
            return ""
        return action if role.may(action) or not action.strip() else _NOT_ALLOWED

    def _results(
        self, reward: float, terminated: bool, info: Mapping[str, Any]
    ) -> dict[str, RoleResult]:
        """What each role gets from a step of the environment."""
        given = info.get("rewards")
        if given is None:
            shared = RoleResult(reward, bool(info["won"]), float(info.get("score", 0.0)))
            return dict.fromkeys(self.agents, shared)
        if set(given) != set(self.agents):
            raise ValueError(
                f"{self.env_id} gives rewards to {', '.join(given)}, and the roles of the team are"
                f" {', '.join(self.agents)}: rename the roles of the team"
            )
        return {
            role: RoleResult(given[role], terminated and given[role] > 0.0, max(given[role], 0.0))
            for role in self.agents
        }

    def _pass_turn(self) -> None:
        self._taken = 0
        self._at = (self._at + 1) % len(self.agents)
        self._rounds += self._at == 0

    def _say(self, agent: str, text: str) -> Message:
        roles = self.team.roles
        message, malformed = clean(text, self.team.message_chars)
        self._messages[agent] = message
        readers = [name for name, role in roles.items() if name != agent and role.listens]
        sent = Message(
            text=message,
            malformed=malformed,
            kinds=self.team.names,
            instruction=self.instruction,
            shown=self._names.shown(agent),
            fresh=self._names.take_fresh(agent),
            known={name: self._names.shown(name) for name in readers},
            admissible=self._view[1]["admissible_actions"],
        )
        for name in readers:
            self._names.show(name, names_in(message, self.team.names))
        return sent

    def _heard_by(self, agent: str) -> list[Message]:
        """The messages that a role sees, while the transition of the sender lasts."""
        return [
            transition.message
            for name, transition in self._open.items()
            if transition.message is not None and name != agent and self.team.roles[agent].listens
        ]

    def _show_state(self) -> bool:
        """Notes the names in the current state; whether the role with the turn sees a new name."""
        observation, info = self._view
        before = len(self._names.shown(self.agent))
        self._names.show_state(self.instruction, observation, info)
        return len(self._names.shown(self.agent)) > before

    def _lines(self, agent: str) -> list[str]:
        """The last messages of the further roles, one per line; empty without ``messages``."""
        if not self.team.roles[agent].listens:
            return []
        return [f"{k}: {v}" for k, v in self._messages.items() if v and k != agent]

    def _admissible(self, agent: str) -> list[str]:
        role = self.team.roles[agent]
        if "admissible" not in role.sees:
            return []
        actions = list(self._view[1]["admissible_actions"])
        if not role.acts:
            return actions
        return [a for a in actions if role.may(a)] + ([TELL] if role.speaks and actions else [])

    def _tools(self, role: Role) -> tuple[Any, ...]:
        """The tools that a role may call; all for a role that only speaks."""
        tools = self._view[1]["tools"]
        return tuple(t for t in tools if not role.acts or role.may(t["function"]["name"]))

    def _put(self, action: str) -> str:
        """An action of the environment in a form that the role with the turn may send."""
        role = self.team.roles[self.agent]
        if not role.acts or role.may(action):
            return action
        if role.speaks:
            _, bracket, argument = action.partition("[")
            return filled(TELL, argument.removesuffix("]") if bracket else action)
        messages = " ".join(text for text in self._messages.values() if text) or "nothing"
        forms = [a for a in self._view[1]["admissible_actions"] if role.may(a)]
        form = forms[0] if forms else action
        return filled(form, messages) if form in self.open_actions else form

    def _close(self, agent: str, info: dict[str, Any]) -> RoleTransition:
        transition = self._open.pop(agent)
        facts = transition.message.facts() if transition.message is not None else transition.facts
        return RoleTransition(
            agent=agent,
            reward=transition.reward,
            parsed=transition.parsed,
            accepted=transition.accepted,
            observation=self.observe(agent),
            info=info,
            context=transition.context,
            next_context=self._context,
            facts=facts,
            rubric=self._judges.judge(agent, transition, facts),
        )
