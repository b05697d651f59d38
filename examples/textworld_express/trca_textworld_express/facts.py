"""The facts of a transition and the binding of the instruction, which the rubric reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Verb = Literal[
    "",
    "chop",
    "close",
    "cook",
    "dice",
    "eat",
    "examine",
    "inventory",
    "look",
    "move",
    "open",
    "prepare",
    "put",
    "read",
    "slice",
    "take",
    "other",
]


@dataclass(frozen=True)
class Facts:
    """The facts of one transition, which the conditions of the library read as ``facts``.

    The recipe is what the agent has read. Facts about firsts are empty at a repetition.

    Attributes:
        verb: First word of the action; empty for an unreadable response, ``other`` for an unknown
            word.
        accepted: Whether the simulator carried out the action.
        repeated: Whether the agent's knowledge (place, things, doors, containers, recipe) now
            equals its knowledge at an earlier time of the episode.
        new_room: Whether the agent is in a room for the first time.
        opened: Whether the agent sees the contents of a container or of the room behind a door for
            the first time, because it opens it.
        read: The thing that the agent reads for the first time; empty for none.
        found: The ingredients of the recipe that the agent sees for the first time, after it has
            read the recipe.
        found_tools: The tools that the recipe needs (knife, barbeque and so on) that the agent sees
            for the first time, after it has read the recipe.
        taken: The ingredients of the recipe that are in the inventory for the first time.
        knife_taken: Whether the knife is in the inventory for the first time, and the recipe needs
            it.
        cut: The ingredient that the action cuts as the recipe asks; empty for none.
        cooked: The ingredient that the action cooks as the recipe asks; empty for none.
        unasked: Whether the action cuts, cooks or eats a thing, and the recipe, as far as the agent
            has read it, does not ask for it.
        meal: ``prepared`` or ``eaten`` if the action prepares or eats the meal; else empty.
    """

    verb: Verb = ""
    accepted: bool = False
    repeated: bool = False
    new_room: bool = False
    opened: bool = False
    read: str = ""
    found: tuple[str, ...] = ()
    found_tools: tuple[str, ...] = ()
    taken: tuple[str, ...] = ()
    knife_taken: bool = False
    cut: str = ""
    cooked: str = ""
    unasked: bool = False
    meal: Literal["", "prepared", "eaten"] = ""


@dataclass(frozen=True)
class Binding:
    """The requirements of the instruction, which the conditions read as ``task``.

    Attributes:
        book: The thing that has the recipe.
        room: The room with the recipe.
    """

    book: str = ""
    room: str = ""
