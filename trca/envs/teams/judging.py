"""The transitions of a team's roles, with rubric judgments and rewards.

A transition lasts until the next turn of its role.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from trca.envs.annotate import Operators, rubric_info
from trca.envs.info import RubricInfo
from trca.envs.teams.messages import Message, message_judge, message_library
from trca.envs.teams.team import Role, Team
from trca.rubric import Budgets, EpisodeRewards, RubricLibrary
from trca.rubric.rewards import DEFAULT_LAMBDA


class RoleTransition(NamedTuple):
    """One action of a role and everything until the role's next turn or the end of the episode.

    Attributes:
        agent: The role.
        context: Structural key of the state before the action.
        parsed: Whether the action is not empty.
        accepted: Whether the environment carried out the action. For a message: whether it has
            text.
        reward: Sum of the environment's rewards in this time, paid to the team.
        message: The message; None for an action of the environment.
        facts: Facts of the action, or of the message (`MessageFacts`).
        rubric: Judgments and rewards; None for a role without operators.
        observation: The role's observation after the transition.
        info: The role's ``info`` after the transition.
        next_context: Structural key of the state at the role's next turn.
    """

    agent: str
    context: str
    parsed: bool
    accepted: bool = False
    reward: float = 0.0
    message: Message | None = None
    facts: Any = None
    rubric: RubricInfo | None = None
    observation: str = ""
    info: Mapping[str, Any] = {}
    next_context: str = ""


def role_operators(role: Role, library: RubricLibrary | None) -> Operators:
    """The operators that judge a role: the environment's library, if any, then that of messages."""
    libraries = [library] if library is not None and role.acts else []
    libraries += [message_library()] if role.speaks else []
    ids = tuple(name for each in libraries for name in each.ids)
    categories = [each.categories for each in libraries]
    return Operators(ids, np.concatenate([np.empty(0, np.int8), *categories]))


class RoleJudges:
    """Judges the transitions of each role and computes their rubric rewards.

    Attributes:
        operators: The rubric operators of each role.
    """

    def __init__(self, team: Team, library: RubricLibrary | None) -> None:
        """Collects the operators of each role; ``library`` judges actions, None for no rubric."""
        self.operators = {name: role_operators(role, library) for name, role in team.roles.items()}
        self._roles = team.roles
        self._library = library
        self._message_judge = (
            message_judge() if any(role.speaks for role in team.roles.values()) else None
        )
        self.reward_by(None)
        self._rewards = self._next_rewards

    def reward_by(
        self, budgets: Budgets | Mapping[str, float] | None, lambda_: float = DEFAULT_LAMBDA
    ) -> None:
        """Sets budgets and lambda from the next episode on."""
        self._next_rewards = {
            name: EpisodeRewards(operators.categories, budgets, lambda_)
            for name, operators in self.operators.items()
        }

    def reset(self) -> None:
        """Starts an episode without covered operators."""
        self._rewards = self._next_rewards
        for rewards in self._rewards.values():
            rewards.reset()

    def judge(self, transition: RoleTransition) -> RoleTransition:
        """Returns a transition that ends, with its facts, judgments and rewards.

        The judgments are those of the library of actions, then those of the library of messages; 0
        for a library that does not concern the transition.
        """
        role, message = self._roles[transition.agent], transition.message
        ids = self.operators[transition.agent].ids
        actions = len(self._library.ids) if role.acts and self._library is not None else 0
        facts = transition.facts if message is None else message.facts()
        if not ids:
            return transition._replace(facts=facts)
        judgments = np.zeros(len(ids), np.uint8)
        if actions and transition.rubric is not None:
            judgments[:actions] = transition.rubric["judgments"]
        if message is not None and self._message_judge is not None:
            judgments[actions:] = self._message_judge.judge(None, facts)
        judgments.setflags(write=False)
        rubric = rubric_info(judgments, self._rewards[transition.agent], ids)
        return transition._replace(facts=facts, rubric=rubric)
