"""The facts of a transition and the binding of an instruction, which the rubric reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Verb = Literal[
    "",
    "activate",
    "close",
    "connect",
    "deactivate",
    "disconnect",
    "dunk",
    "eat",
    "examine",
    "flush",
    "focus",
    "go",
    "inventory",
    "look",
    "mix",
    "move",
    "open",
    "pick",
    "pour",
    "put",
    "read",
    "reset",
    "task",
    "teleport",
    "use",
    "wait",
    "choice",
    "other",
]
LOOKING: Final = ("look", "examine", "inventory", "task", "wait", "read")
"""Verbs of actions that change nothing by themselves."""


@dataclass(frozen=True)
class Facts:
    """The facts of one transition, which the conditions of the library read as ``facts``.

    Attributes:
        verb: First word of the action; empty for an unreadable response, ``choice`` for a number
            that answers an ambiguous request, ``other`` for an unknown word.
        accepted: Whether the simulator carried out the action.
        ambiguous: Whether the answer asks which of several things is meant.
        changed: Whether room or inventory look different after the action.
        repeated: Whether the agent took the same action in the same state before, with the same
            result. Waiting and looking do not count.
        new_room: Whether the agent is in a room for the first time.
        new: The things that the agent sees for the first time.
        new_named: The things in `new` that the instruction names.
        room: The room after the action.
        taken: The things that are new in the inventory since the start of the task.
        focused: The thing on which the agent focuses for the first time; empty for none.
        placed: The place into which the action moves a thing for the first time; empty for none.
        measured: Whether the answer has a new reading of an instrument.
        worked: Whether the action connected, activated, poured, mixed or heated a thing, with an
            answer that is new.
    """

    verb: Verb = ""
    accepted: bool = False
    ambiguous: bool = False
    changed: bool = False
    repeated: bool = False
    new_room: bool = False
    new: tuple[str, ...] = ()
    new_named: tuple[str, ...] = ()
    room: str = ""
    taken: tuple[str, ...] = ()
    focused: str = ""
    placed: str = ""
    measured: bool = False
    worked: bool = False


@dataclass(frozen=True)
class Binding:
    """The requirements of the instruction, which the conditions read as ``task``.

    Attributes:
        kind: Kind of thing that a task of type ``find-`` asks for, such as ``plant``; empty for
            other tasks.
        focus: The things with a name on which to focus.
        boxes: The boxes for the answer.
        things: All things that the instruction names.
        rooms: The rooms that the instruction names.
    """

    kind: str = ""
    focus: tuple[str, ...] = ()
    boxes: tuple[str, ...] = ()
    things: tuple[str, ...] = ()
    rooms: tuple[str, ...] = ()
