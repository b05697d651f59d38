"""The transitions of a team's roles, with rubric judgments and rewards.

A transition lasts until the next turn of its role.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from trca.envs.annotate import Operators, rubric_info
from trca.envs.info import RubricInfo
from trca.envs.teams.messages import Message, message_judge, message_library
from trca.envs.teams.team import Role, Team
from trca.rubric import Budgets, EpisodeRewards, RubricLibrary
from trca.rubric.rewards import DEFAULT_LAMBDA


class RoleTransition(NamedTuple):
    """An ended transition: one action of a role and everything until its next turn or the end.

    Attributes:
        agent: The role.
        reward: Sum of the role's rewards in this time.
        parsed: Whether the action is not empty.
        accepted: Whether the environment carried out the action. For a message: whether it has
            text.
        observation: The role's observation after the transition.
        info: The role's ``info`` after the transition.
        context: Structural key of the state before the action.
        next_context: Structural key of the state at the role's next turn.
        facts: Facts of the action, or of the message (`MessageFacts`).
        rubric: Judgments and rewards; None for a role without operators.
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


@dataclass
class OpenTransition:
    """A transition that has not ended; ``message`` is None for an action of the environment."""

    context: str
    parsed: bool
    accepted: bool = False
    reward: float = 0.0
    message: Message | None = None
    facts: Any = None
    rubric: RubricInfo | None = None


def role_operators(role: Role, library: RubricLibrary | None) -> Operators:
    """The operators that judge a role: the environment's library, if any, then that of messages."""
    libraries = [library] if library is not None and role.acts else []
    libraries += [message_library()] if role.speaks else []
    ids = tuple(name for each in libraries for name in each.ids)
    categories = [each.categories for each in libraries]
    return Operators(ids, np.concatenate([np.empty(0, np.int8), *categories]))


class RoleJudges:
    """Judges the transitions of each role and computes their rubric rewards."""

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

    def judge(self, agent: str, transition: OpenTransition, facts: Any) -> RubricInfo | None:
        """The judgments and rewards of a role's transition that ends, with its facts.

        The judgments are those of the library of actions, then those of the library of messages; 0
        for a library that does not concern the transition. None for a role without operators.
        """
        ids = self.operators[agent].ids
        if not ids:
            return None
        role, message = self._roles[agent], self._message_judge
        action_ids = self._library.ids if role.acts and self._library is not None else ()
        judgments = np.zeros(len(ids), np.uint8)
        if action_ids and transition.rubric is not None:
            judgments[: len(action_ids)] = transition.rubric["judgments"]
        if role.speaks and message is not None and transition.message is not None:
            judgments[len(action_ids) :] = message.judge(None, facts)
        judgments.setflags(write=False)
        return rubric_info(judgments, self._rewards[agent], ids)
