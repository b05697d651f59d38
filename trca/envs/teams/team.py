"""Teams as data: roles, their inputs, their permitted actions, and the order of turns.

A team is a YAML file, either packaged or written by the user; roles act in the order of the file.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field

from trca.common.strict_yaml import FileRecord, Record
from trca.envs.teams.messages import NameKind
from trca.envs.tool_calls import read_calls

Sight = Literal["task", "observation", "memory", "admissible", "messages"]
"""A part of the state that a role may see."""

TELL: Final = "tell[<your message>]"
"""Admissible action that represents a message, for roles that also act."""
_ALL: Final = "all"
_TELL: Final = re.compile(r"\s*tell\s*\[(.*)\]\s*", re.DOTALL)
_VERB: Final = re.compile(r"[^\s\[]+")
_Verb = Annotated[str, Field(pattern=r"^[^\sA-Z\[]+$")]
_RoleName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,30}$")]


class TeamError(ValueError):
    """A team file breaks a rule. The message names the file and the role."""


class Role(Record):
    """One agent of a team: its prompt, its inputs and its permitted actions."""

    prompt: str = Field(
        "{task}",
        min_length=1,
        max_length=2000,
        description="Instruction in the role's prompts; {task} is the environment's instruction.",
    )
    sees: tuple[Sight, ...] = Field(
        ("task", "observation", "memory", "admissible"),
        strict=False,
        description="Parts of the state in the prompt. messages: each further role's last message.",
    )
    acts: tuple[_Verb, ...] = Field(
        (),
        strict=False,
        description="Permitted verbs or tools, in lower case; [all] permits all.",
    )
    speaks: bool = Field(
        False,
        description="Whether the role sends messages. A message ends the turn. Without acts, every "
        "action of the role is a message; with acts, only tell[...] is.",
    )
    turn: int = Field(1, ge=1, le=1000, description="Number of environment actions in a turn.")

    def message(self, action: str) -> str | None:
        """The message in an action; None for an action of the environment."""
        if not self.speaks:
            return None
        if not self.acts:
            return action
        match = _TELL.fullmatch(action)
        return match[1] if match else None

    def may(self, action: str) -> bool:
        """Whether the role may send an action to the environment."""
        verb = _VERB.match(action.strip())
        verbs = [verb[0]] if verb else [call.name for call in read_calls(action)]
        return _ALL in self.acts or (bool(verbs) and all(v.lower() in self.acts for v in verbs))

    @property
    def listens(self) -> bool:
        """Whether the role sees messages."""
        return "messages" in self.sees

    @property
    def sees_names_in(self) -> tuple[Sight, ...]:
        """The parts of the state whose names the role sees: not a selection of actions."""
        all_actions = not self.acts or _ALL in self.acts
        return tuple(sight for sight in self.sees if sight != "admissible" or all_actions)


class Team(FileRecord):
    """The roles of a team in the order of their turns."""

    kind: ClassVar = "team"
    folder: ClassVar = Path(__file__).with_name("data")
    error: ClassVar = TeamError
    part: ClassVar = ("roles", "role", Role)

    roles: dict[_RoleName, Role] = Field(min_length=1, max_length=16)
    names: tuple[NameKind, ...] = Field(
        (), strict=False, description="Kinds of names in messages and observations; see `messages`."
    )
    message_chars: int = Field(
        200, ge=1, le=10_000, description="Largest number of characters of a message."
    )

    def check_all(self) -> None:
        """Checks that roles act or speak, and their prompts."""
        for name, role in self.roles.items():
            where = f"{self.source}: role {name!r}"
            if not role.acts and not role.speaks:
                raise TeamError(f"{where} neither acts nor speaks: give acts, or speaks: true")
            try:
                role.prompt.format(task="")
            except (KeyError, IndexError, ValueError, AttributeError):
                raise TeamError(
                    f"{where}: prompt may hold {{task}} and no other braces: double those"
                ) from None
        if not any(role.acts for role in self.roles.values()):
            raise TeamError(f"{self.source}: no role acts: give one of them acts: [all]")
