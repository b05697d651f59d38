"""Teams as data: roles, their inputs, their permitted actions, and the order of turns.

A team is a YAML file, either packaged or written by the user. Roles take turns in the order of the
file::

    names: [numbered]
    roles:
      planner:
        prompt: "You plan for an executor, who is to: {task} Say what to do next, in a few words."
        speaks: true
      executor:
        acts: [all]
        sees: [task, observation, memory, admissible, messages]
        turn: 4
"""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from trca.common import strict_yaml
from trca.common.files import find
from trca.common.names import nearest
from trca.envs.teams.messages import NameKind

Sight = Literal["task", "observation", "memory", "admissible", "messages"]
"""A part of the state that a role may see."""

TELL: Final = "tell[<your message>]"
"""Admissible action that stands for a message, for roles that also act."""
_ALL: Final = "all"
_TELL: Final = re.compile(r"\s*tell\s*\[(.*)\]\s*", re.DOTALL)
_VERB: Final = re.compile(r"[^\s\[]+")
_Verb = Annotated[str, Field(pattern=r"^[^\sA-Z\[]+$")]
_RoleName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,30}$")]


class TeamError(ValueError):
    """A team file breaks a rule. The message names the file and the role."""


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        return self  # immutable


class Role(_Record):
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
        description="Permitted verbs of the environment, in lower case; [all] permits every verb.",
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
        return _ALL in self.acts or (verb is not None and verb[0].lower() in self.acts)

    @property
    def sees_all_actions(self) -> bool:
        """Whether the role sees all admissible actions of the environment."""
        return not self.acts or _ALL in self.acts


class Team(_Record):
    """The roles of a team in the order of their turns."""

    roles: dict[_RoleName, Role] = Field(min_length=1, max_length=16)
    names: tuple[NameKind, ...] = Field(
        (), strict=False, description="Kinds of names in messages and observations; see `messages`."
    )
    message_chars: int = Field(
        200, ge=1, le=10_000, description="Largest number of characters of a message."
    )
    source: str = Field(default="", exclude=True)

    @classmethod
    def load(cls, name_or_path: str | Path) -> Team:
        """Loads a packaged team or a YAML file.

        Args:
            name_or_path: A name such as ``alfworld_planner``, or a path.

        Raises:
            TeamError: If there is no such team, or it breaks a rule. The message names the problem
                and the fix.
        """
        shipped = _shipped()
        if str(name_or_path) in shipped:
            return cls.parse(shipped[str(name_or_path)], str(name_or_path))
        path = find(name_or_path)
        if not path.is_file():
            raise TeamError(
                f"no team {str(name_or_path)!r}: give the path of a YAML file, or a name."
                f" {nearest(name_or_path, shipped)}"
            )
        try:
            text = strict_yaml.read_text(path)
        except ValueError as error:
            raise TeamError(f"{path}: {error}") from None
        return cls.parse(text, str(path))

    @classmethod
    def parse(cls, text: str, source: str = "team") -> Team:
        """Parses a team from YAML text.

        Args:
            text: The YAML text.
            source: Name of the text in error messages.

        Raises:
            TeamError: If the text is not YAML or breaks a rule.
        """
        try:
            data = strict_yaml.parse(text)
        except ValueError as error:
            raise TeamError(f"{source}: not a YAML file: {error}") from None
        if not isinstance(data, dict):
            raise TeamError(f"{source}: a team is a mapping with 'roles'")
        try:
            team = cls.model_validate({**data, "source": source})
        except ValidationError as error:
            raise TeamError(_words(source, error)) from None
        team._check()
        return team

    def _check(self) -> None:
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


@cache
def _shipped() -> dict[str, str]:
    folder = resources.files(__package__) / "data"
    return {
        entry.name.removesuffix(".yaml"): entry.read_text("utf-8")
        for entry in folder.iterdir()
        if entry.name.endswith(".yaml")
    }


def _words(source: str, error: ValidationError) -> str:
    first: Any = error.errors(include_url=False)[0]
    place = [str(part) for part in first["loc"]]
    where = f"{source}: role {place[1]!r}" if place[0] == "roles" and len(place) > 1 else source
    key = ".".join(place[2:] if place[0] == "roles" else place) or "roles"
    if first["type"] == "extra_forbidden":
        fields = set((Team if where == source else Role).model_fields) - {"source"}
        return f"{where}: unknown key {key!r}: {nearest(key, fields)}"
    value = "" if first["type"] == "missing" else f" is {str(first['input'])[:60]!r}"
    return f"{where}: {key}{value}: {first['msg'][:200]}"
