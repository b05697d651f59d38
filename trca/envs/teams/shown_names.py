"""The names of things that the roles of a team have been shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trca.envs.teams.messages import names_in
from trca.envs.teams.team import Team


class ShownNames:
    """The names that each role has been shown in this episode, and its new names.

    A name is new to a role from its first display until the role's next message. Without ``names``
    in the team, all sets stay empty.
    """

    def __init__(self, team: Team) -> None:
        """Starts an episode in which no role has been shown a name."""
        self._team = team
        self._shown = {role: set[str]() for role in team.roles}
        self._fresh = {role: set[str]() for role in team.roles}

    def shown(self, role: str) -> frozenset[str]:
        """The names that a role has been shown."""
        return frozenset(self._shown[role])

    def take_fresh(self, role: str) -> frozenset[str]:
        """Returns the names that are new to a role, and clears this set."""
        fresh = frozenset(self._fresh[role])
        self._fresh[role].clear()
        return fresh

    def show(self, role: str, text: str) -> None:
        """Shows a text to a role."""
        self._note(role, names_in(text, self._team.names))

    def show_state(self, instruction: str, observation: str, info: Mapping[str, Any]) -> None:
        """Shows each role the parts of the current state that its ``sees`` lists.

        Args:
            instruction: The task in words.
            observation: The environment's observation.
            info: The environment's ``info``, with ``memory`` and ``admissible_actions``.
        """
        texts_by_sight = {
            "task": [instruction],
            "observation": [observation],
            "memory": [info["memory"]],
            "admissible": info["admissible_actions"],
        }
        names = {
            sight: set[str]().union(*(names_in(text, self._team.names) for text in texts))
            for sight, texts in texts_by_sight.items()
        }
        for name, role in self._team.roles.items():
            for sight in role.sees:
                if sight != "admissible" or role.sees_all_actions:
                    self._note(name, names.get(sight, set()))

    def _note(self, role: str, names: set[str]) -> None:
        self._fresh[role] |= names - self._shown[role]
        self._shown[role] |= names
