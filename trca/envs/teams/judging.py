"""Rubric judgments and rewards of the roles of a team."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trca.envs.annotate import Operators
from trca.envs.info import RubricInfo
from trca.envs.teams.messages import message_judge, message_library
from trca.envs.teams.team import Role, Team
from trca.envs.teams.transitions import OpenTransition
from trca.rubric import Budgets, EpisodeRewards, RubricLibrary
from trca.rubric.rewards import DEFAULT_LAMBDA


def role_operators(role: Role, library: RubricLibrary | None) -> Operators:
    """The operators that judge a role: the library of actions, then the library of messages.

    Args:
        role: The role.
        library: The library of the environment; None for no rubric.
    """
    libraries = [library] if library is not None and role.acts else []
    if role.speaks:
        libraries.append(message_library())
    ids = tuple(name for each in libraries for name in each.ids)
    categories = [each.categories for each in libraries]
    return Operators(ids, np.concatenate([np.empty(0, np.int8), *categories]))


class RoleJudges:
    """Judges the transitions of each role and computes their rubric rewards.

    Attributes:
        operators: The rubric operators of each role.
    """

    def __init__(self, team: Team, library: RubricLibrary | None) -> None:
        """Collects the operators of each role.

        Args:
            team: The team.
            library: The library that judges actions; None for no rubric.
        """
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
        """The judgments and rewards of a transition that ends.

        Args:
            agent: The role of the transition.
            transition: The transition, with the judgments of its action.
            facts: Facts of the action or the message.

        Returns:
            Judgments of the library of actions, then of the library of messages; 0 for a library
            that does not concern this transition. None for a role without operators.
        """
        operators = self.operators[agent]
        if not operators.ids:
            return None
        role, parts = self._roles[agent], list[NDArray[np.uint8]]()
        if role.acts and self._library is not None:
            silent = np.zeros(len(self._library.ids), np.uint8)
            rubric = transition.rubric
            parts.append(silent if rubric is None else rubric["judgments"])
        if role.speaks and self._message_judge is not None:
            judge = self._message_judge
            silent = np.zeros(len(judge.library.ids), np.uint8)
            parts.append(silent if transition.message is None else judge.judge(None, facts))
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
