"""`TeamEnv`: an environment played by the roles of a team in turns.

It is a text environment like any other, whose next action is the next role's::

    env = trca.envs.make("alfworld", team="alfworld_planner")
    observation, info = env.reset(seed=0)
    info["agent"]  # "planner"
    observation, reward, terminated, truncated, info = env.step("go to desk 1")
    info["agent"]  # "executor", whose observation has the line "planner: go to desk 1"
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded
from numpy.typing import NDArray

from trca.envs.annotate import Operators, RubricAnnotation
from trca.envs.panel import Panel
from trca.envs.teams.messages import Message, clean, message_judge, message_library, names_in
from trca.envs.teams.team import TELL, Role, Team
from trca.envs.text_env import BLANK, RubricInfo, TextEnv
from trca.rubric import Budgets, EpisodeRewards, RubricLibrary
from trca.rubric.rewards import DEFAULT_LAMBDA

_NOT_ALLOWED: Final = "not allowed"
"""Sent to the environment in place of an action that the role may not take: garbage."""


class RoleTransition(NamedTuple):
    """What one act of a role led to: all until its next turn, or the end.

    Attributes:
        agent: The role.
        reward: What the environment paid in that time, to the whole team.
        parsed: Whether the act was not blank.
        accepted: Whether the environment carried the action out; of a message, whether something
            was said.
        observation: What the role sees afterwards.
        info: What its ``info`` says then.
        context: Structural key of the state before the act.
        next_context: Structural key of the state at its next turn.
        facts: Facts of the action, or of the message (`MessageFacts`).
        rubric: What the libraries say of it; None where nothing judges the role.
    """

    agent: str
    reward: float
    parsed: bool
    accepted: bool
    observation: str
    info: dict[str, Any]
    context: str
    next_context: str
    facts: Any
    rubric: RubricInfo | None


def role_operators(role: Role, library: RubricLibrary | None) -> Operators:
    """The operators that judge a role: of the libraries of its actions and of messages.

    Args:
        role: The role.
        library: That of the environment; None where nothing judges its actions.
    """
    libraries = [library] if library is not None and role.acts else []
    if role.speaks:
        libraries.append(message_library())
    ids = tuple(name for each in libraries for name in each.ids)
    categories = [each.categories for each in libraries]
    return Operators(ids, np.concatenate([np.empty(0, np.int8), *categories]))


class TeamEnv(TextEnv):
    """Plays a text environment by turns; see `trca.envs.teams.team` for what a team is.

    Observations, ``task``, ``admissible_actions`` and ``memory`` in ``info`` are those of the role
    whose turn it is. ``info`` also has ``agent``, the role; ``brief``, its prompt; and after a step
    ``closed``, a tuple of the `RoleTransition`s that ended with it. Actions of the environment
    count as steps, messages do not; an episode is truncated too after `max_steps` rounds of turns.
    A role whose turn has ended by its last action is next when the others had theirs.

    Judgments go to the role whose act caused the transition: the environment's library judges
    actions, a library of their own messages (`trca.envs.teams.messages`). The operators of a role
    are those of the libraries that can judge it.

    Attributes:
        team: The team.
        inner: The environment, with its annotation.
        operators: The rubric operators of each role.
    """

    def __init__(
        self,
        team: Team | str | Path,
        env: gymnasium.Env[str, str],
        budgets: Budgets | Mapping[str, float] | None = None,
        lambda_: float = DEFAULT_LAMBDA,
    ) -> None:
        """Lets a team play.

        Args:
            team: The team, or the name or path of one.
            env: An environment as `trca.envs.make` makes it.
            budgets: Category budgets for ``rubric``.
            lambda_: Weight of the breakthrough reward in it.

        Raises:
            TeamError: When there is no such team.
        """
        text_env: Any = env.unwrapped
        super().__init__(text_env.split, text_env.max_steps, text_env.render_mode)
        self.team = team if isinstance(team, Team) else Team.load(team)
        self.inner = env
        self._text_env: TextEnv = text_env
        self.env_id, self.generated, self.waits = (
            text_env.env_id or type(text_env).__name__,
            text_env.generated,
            text_env.waits,
        )
        self.idle_actions = text_env.idle_actions  # type: ignore[misc]
        self._message_judge = message_judge() if self._speakers() else None
        library = env.judge.library if isinstance(env, RubricAnnotation) else None
        self.operators = {
            name: role_operators(role, library) for name, role in self.team.roles.items()
        }
        self.reward_by(budgets, lambda_)
        self._order = tuple(self.team.roles)
        self._open: dict[str, _Open] = {}
        self._view: tuple[str, dict[str, Any]] = ("", {})

    @classmethod
    def prefetch(cls, pairs: Sequence[tuple[TextEnv, str]]) -> None:
        """Prepares the actions that reach the environments, by their own classes."""
        by_class: dict[type[TextEnv], list[tuple[TextEnv, str]]] = {}
        for env, action in pairs:
            if isinstance(env, cls) and env._sent(action) == action:
                by_class.setdefault(type(env._text_env), []).append((env._text_env, action))
        for env_class, own in by_class.items():
            env_class.prefetch(own)

    @property
    def task_ids(self) -> tuple[str, ...]:
        """The tasks of the environment."""
        return self._text_env.task_ids

    @property
    def panel(self) -> Panel:
        """The panel of the environment: a team plays the same tasks as one agent."""
        return self._text_env.panel

    @property
    def agents(self) -> tuple[str, ...]:
        """The roles in the order of their turns."""
        return self._order

    @property
    def agent(self) -> str:
        """The role whose turn it is."""
        return self._order[self._at]

    @property
    def instruction(self) -> str:
        """The task in words, whoever may see it."""
        return self._text_env.instruction

    @property
    def task_type(self) -> str:
        """The kind of the present task."""
        return self._text_env.task_type

    @property
    def admissible_actions(self) -> list[str]:
        """What the role whose turn it is may do, as it is shown."""
        return self._admissible(self.agent)

    def gold(self, task_id: str) -> Any:
        """The hidden truth of a task."""
        return self._text_env.gold(task_id)

    def oracle_action(self) -> str:
        """The environment's oracle, as the role can put it."""
        return self._put(self._text_env.oracle_action())

    def demonstrator_action(self) -> str:
        """The environment's demonstrator, as the role can put it."""
        return self._put(self._text_env.demonstrator_action())

    def random_action(self, rng: np.random.Generator) -> str:
        """An action of the environment at random, as the role can put it."""
        return self._put(self._text_env.random_action(rng))

    def reward_by(
        self, budgets: Budgets | Mapping[str, float] | None, lambda_: float = DEFAULT_LAMBDA
    ) -> None:
        """Sets how judgments become rewards, from the next episode on."""
        self._rewards = {
            name: EpisodeRewards(operators.categories, budgets, lambda_)
            for name, operators in self.operators.items()
        }

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
        self._context = str(info["context"])
        self._shown = {name: set[str]() for name in self._order}
        self._fresh = {name: set[str]() for name in self._order}
        self._show_all()
        self._log = [("", "", observation)]
        for rewards in self._rewards.values():
            rewards.reset()
        return self.observe(self.agent), self.info_of(self.agent)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Takes the turn of the role whose turn it is, or a part of it.

        Raises:
            gymnasium.error.ResetNeeded: Before the first ``reset`` and after the end of an episode.
        """
        self._check_started()
        if self._over:
            raise ResetNeeded("the episode is over: call reset() to start another")
        agent = self.agent
        role = self.team.roles[agent]
        said = role.message(action)
        act = self._open[agent] = _Open(self._context, bool(action.strip()))
        won, score, reward, terminated, truncated = False, 0.0, 0.0, False, False
        measures: dict[str, Any] = {}
        if said is not None:
            act.message = self._say(agent, said)
            act.accepted = act.message.text != ""
            self._pass_turn()
        else:
            observation, paid, terminated, truncated, info = self.inner.step(self._sent(action))
            reward = float(paid)
            allowed = role.may(action)
            act.accepted = bool(info["accepted"]) and allowed
            act.facts, act.rubric = info.get("facts"), info.get("rubric")
            self._view, self._context = (observation, info), str(info["next_context"])
            revealing = self._show_all()
            won, score = bool(info["won"]), float(info["score"])
            measures = {"measures": info["measures"]} if "measures" in info else {}
            for each in self._open.values():
                each.reward += reward
            self._tell_senders(agent, action, act.accepted, revealing)
            self._taken += 1
            if self._taken >= role.turn:
                self._pass_turn()
        self._log.append((agent, action, self._view[0] if said is None else ""))
        if self._rounds >= self.max_steps and not terminated:
            truncated = True
        self._over = bool(terminated or truncated)
        if self._over and not measures and (own := self._text_env.episode_measures()):
            measures = {"measures": own}
        ending = list(self._order) if self._over else [self.agent]
        if not self._over:
            self._reads(self.agent)
        own = self.info_of(self.agent)
        closed = tuple(
            self._close(name, own if name == self.agent else self.info_of(name))
            for name in ending
            if name in self._open
        )
        info = own | {
            "closed": closed,
            "context": act.context,
            "next_context": self._context,
            "parsed": act.parsed,
            "accepted": act.accepted,
            "won": won,
            "score": score,
            **measures,
        }
        return self.observe(self.agent), reward, bool(terminated), bool(truncated), info

    def observe(self, agent: str) -> str:
        """What a role sees now."""
        shown = [self._view[0]] if "observation" in self.team.roles[agent].sees else []
        return "\n".join([*shown, *self._lines(agent)])

    def info_of(self, agent: str) -> dict[str, Any]:
        """The ``info`` of a role now: what it may see and do."""
        role = self.team.roles[agent]
        inner = self._view[1]
        task = self.instruction if "task" in role.sees else ""
        memory = [inner["memory"]] if "memory" in role.sees and inner["memory"] else []
        return {
            "task_id": inner["task_id"],
            "split": inner["split"],
            "task_type": inner["task_type"],
            "task": task,
            "admissible_actions": self._admissible(agent),
            "context": self._context,
            "memory": "\n".join([*memory, *self._lines(agent)]),
            "agent": agent,
            "brief": role.prompt.format(task=task),
        }

    def render(self) -> str | None:  # type: ignore[override]
        """The episode so far as text, in render mode ``ansi``."""
        if self.render_mode is None:
            return None
        lines = [f"{a}> {said}\n{seen}" if a else seen for a, said, seen in self._log]
        return "\n\n".join(line.rstrip() for line in lines)

    def close(self) -> None:
        """Closes the environment."""
        self.inner.close()

    def _speakers(self) -> list[str]:
        return [name for name, role in self.team.roles.items() if role.speaks]

    def _sent(self, action: str) -> str:
        """What the environment is sent in place of an action; blank for a message."""
        role = self.team.roles[self.agent]
        if role.message(action) is not None:
            return ""
        return action if role.may(action) or not action.strip() else _NOT_ALLOWED

    def _pass_turn(self) -> None:
        self._taken = 0
        self._at = (self._at + 1) % len(self._order)
        self._rounds += self._at == 0

    def _say(self, agent: str, text: str) -> Message:
        team = self.team
        message, malformed = clean(text, team.message_chars)
        self._messages[agent] = message
        shown = frozenset(self._shown[agent])
        readers = [name for name in self._order if name != agent and self._listens(name)]
        sent = Message(
            text=message,
            malformed=malformed,
            kinds=team.names,
            instruction=self.instruction,
            shown=shown,
            fresh=frozenset(self._fresh[agent]),
            known={name: frozenset(self._shown[name]) for name in readers},
            admissible=self._view[1]["admissible_actions"],
        )
        self._fresh[agent].clear()
        for name in readers:
            self._show(name, message)
        return sent

    def _listens(self, agent: str) -> bool:
        return "messages" in self.team.roles[agent].sees

    def _reads(self, agent: str) -> None:
        """The turn comes to a role: it reads the messages it is shown."""
        if self._listens(agent):
            for name, act in self._open.items():
                if act.message is not None and name != agent:
                    act.message.was_read()

    def _tell_senders(self, agent: str, action: str, accepted: bool, revealing: bool) -> None:
        if self._listens(agent):
            for name, act in self._open.items():
                if act.message is not None and name != agent:
                    act.message.answered(action, accepted, revealing)

    def _show_all(self) -> bool:
        """Notes the names that roles are shown; whether a role whose turn it is sees a new one."""
        if not self.team.names:
            return False
        observation, info = self._view
        before = len(self._shown[self.agent])
        sights = {
            "task": [self.instruction],
            "observation": [observation],
            "memory": [info["memory"]],
            "admissible": info["admissible_actions"],
        }
        names = {
            sight: set[str]().union(*(names_in(text, self.team.names) for text in texts))
            for sight, texts in sights.items()
        }
        for agent, role in self.team.roles.items():
            for sight in role.sees:
                own = sight != "admissible" or role.sees_all_actions
                self._note(agent, names.get(sight, set()) if own else set())
        return len(self._shown[self.agent]) > before

    def _show(self, agent: str, text: str) -> None:
        self._note(agent, names_in(text, self.team.names))

    def _note(self, agent: str, names: set[str]) -> None:
        self._fresh[agent] |= names - self._shown[agent]
        self._shown[agent] |= names

    def _lines(self, agent: str) -> list[str]:
        """The last messages of the others, a line each, as a role sees them."""
        if not self._listens(agent):
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

    def _put(self, action: str) -> str:
        """An action of the environment as the role whose turn it is can put it."""
        role = self.team.roles[self.agent]
        if not role.acts or role.may(action):
            return action
        if role.speaks:
            _, bracket, argument = action.partition("[")
            return BLANK.sub(lambda _: argument.removesuffix("]") if bracket else action, TELL)
        told = " ".join(text for text in self._messages.values() if text) or "nothing"
        forms = [a for a in self._view[1]["admissible_actions"] if role.may(a)]
        return BLANK.sub(lambda _: told, forms[0]) if forms else action

    def _close(self, agent: str, info: dict[str, Any]) -> RoleTransition:
        act = self._open.pop(agent)
        facts = act.message.facts() if act.message is not None else act.facts
        return RoleTransition(
            agent=agent,
            reward=act.reward,
            parsed=act.parsed,
            accepted=act.accepted,
            observation=self.observe(agent),
            info=info,
            context=act.context,
            next_context=self._context,
            facts=facts,
            rubric=self._judge(agent, act, facts),
        )

    def _judge(self, agent: str, act: _Open, facts: Any) -> RubricInfo | None:
        operators = self.operators[agent]
        if not operators.ids:
            return None
        role, parts = self.team.roles[agent], list[NDArray[np.uint8]]()
        if role.acts and isinstance(self.inner, RubricAnnotation):
            silent = np.zeros(len(self.inner.judge.library.ids), np.uint8)
            parts.append(silent if act.rubric is None else act.rubric["judgments"])
        if role.speaks and self._message_judge is not None:
            judge = self._message_judge
            silent = np.zeros(len(judge.library.ids), np.uint8)
            parts.append(silent if act.message is None else judge.judge(None, facts))
        judgments = np.concatenate(parts)
        judgments.setflags(write=False)
        foundational, breakthrough, reward = self._rewards[agent].step(judgments)
        return RubricInfo(
            judgments=judgments,
            foundational=foundational,
            breakthrough=breakthrough,
            reward=reward,
            fired=tuple(operators.ids[k] for k in judgments.nonzero()[0].tolist()),
        )


@dataclass
class _Open:
    """An act whose transition has not ended."""

    context: str
    parsed: bool
    accepted: bool = False
    reward: float = 0.0
    message: Message | None = None
    facts: Any = None
    rubric: RubricInfo | None = field(default=None)
