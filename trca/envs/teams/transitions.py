"""The transitions of a team's roles. A transition lasts until the role's next turn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from trca.envs.info import RubricInfo
from trca.envs.teams.messages import Message


class RoleTransition(NamedTuple):
    """An ended transition: one action of a role and everything until its next turn or the end.

    Attributes:
        agent: The role.
        reward: Sum of the environment's rewards in this time, paid to the team.
        parsed: Whether the action is not blank.
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
    """A transition that has not ended; attributes as in `RoleTransition`.

    Attributes:
        context: Structural key of the state before the action.
        parsed: Whether the action is not blank.
        accepted: Whether the environment carried out the action, or the message has text.
        reward: Sum of the environment's rewards so far.
        message: The message; None for an action of the environment.
        facts: Facts of the action; None for a message.
        rubric: Judgments of the action; None for a message.
    """

    context: str
    parsed: bool
    accepted: bool = False
    reward: float = 0.0
    message: Message | None = None
    facts: Any = None
    rubric: RubricInfo | None = None
