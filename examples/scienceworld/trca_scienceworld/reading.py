"""Reads ScienceWorld's texts: the page that the agent sees, and the instruction."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

ROOMS: Final = {
    "art studio": ("hallway",),
    "bathroom": ("kitchen",),
    "bedroom": ("hallway",),
    "foundry": ("outside",),
    "greenhouse": ("hallway", "outside"),
    "hallway": ("art studio", "bedroom", "greenhouse", "kitchen", "living room", "workshop"),
    "kitchen": ("bathroom", "hallway", "outside"),
    "living room": ("hallway",),
    "outside": ("foundry", "greenhouse", "kitchen"),
    "workshop": ("hallway",),
}
"""The rooms behind the doors of each room. The house of all tasks is the same."""
AMBIGUOUS: Final = "Ambiguous request"
_REFUSALS: Final = re.compile(
    r"(?:No known action|Unknown action|Ambiguous request|I'm not sure|It'?s not clear"
    r"|That container is empty|You can(?:'t|not))"
    r"|.*\b(?:isn't open|is not open|is already|cannot be|can't be|isn't something)"
)
_ROOM: Final = re.compile(r"is called the ([a-z ]+)\.")
_DOOR: Final = re.compile(r"^\s*A door to the ([a-z ]+) \(that is (open|closed)\)", re.M)
_PIECE: Final = re.compile(r"[():.,\n]")
_NO_THING: Final = re.compile(
    r"(?:(?:On|In) the .*|(?:which|that|also|titled|currently) .*|.* (?:is|are) .*"
    r"|nothing|agent|air|the|)$"
)
_KINDS: Final = re.compile(r"find a\(n\) ([a-z -]+)\.")
_FOCUS: Final = re.compile(r"focus on the ((?:[a-z]+ ){0,3}[\w-]+)(?=[.,]| in | and )")
_THING: Final = re.compile(
    r"(?:boil|melt|freeze|matter of|melting point of|temperature of|determine if|turn on the"
    r"|create(?: the substance)?) '?((?:[\w-]+ ){0,2}[\w-]+?)'?(?:[.,]| is | by |$)"
)
_VAGUE: Final = ("thing", "substance", "animal", "inclined plane", "intermediate", "grown")


@dataclass(frozen=True)
class Page:
    """The content of an observation.

    Attributes:
        answer: Answer to the action; empty if the action only looks.
        state: Description of room and inventory.
        room: Name of the room.
        things: Names of the visible things, in order.
        doors: The rooms behind the doors; the value is whether the door is open.
        inventory: Names of the things in the inventory.
    """

    answer: str
    state: str
    room: str
    things: tuple[str, ...]
    doors: dict[str, bool]
    inventory: tuple[str, ...]


def write_page(answer: str, look: str, inventory: str) -> str:
    """The observation: the answer, the room, the inventory, with blank lines between."""
    shown = [] if answer in (look, inventory) else [answer]
    return "\n\n".join([*shown, look, inventory])


def read_page(observation: str) -> Page:
    """Reads an observation."""
    *answers, look, inventory = ["", "", *observation.split("\n\n")][-3:]
    room = _ROOM.search(look)
    seen, _, doors = look.partition("You also see:")
    return Page(
        answer="".join(answers),
        state=f"{look}\n{inventory}",
        room=room[1] if room else "",
        things=_names(seen.partition("\n")[2]),
        doors={name: state == "open" for name, state in _DOOR.findall(doors)},
        inventory=_names(inventory.partition("\n")[2]),
    )


def refused(answer: str) -> bool:
    """Whether an answer refuses the action."""
    return _REFUSALS.match(answer) is not None


def choices(answer: str) -> list[str]:
    """The numbers that an ambiguous request offers."""
    return re.findall(r"^(\d+):", answer, re.M) if answer.startswith(AMBIGUOUS) else []


def focus_targets(instruction: str) -> tuple[str, ...]:
    """The things with a name that the instruction asks to focus on."""
    return _named(_FOCUS.findall(instruction))


def answer_boxes(instruction: str) -> tuple[str, ...]:
    """The boxes of the instruction, such as ``orange box``."""
    return tuple(dict.fromkeys(re.findall(r"\b[a-z]+ box\b", instruction)))


def wanted_kind(instruction: str) -> str:
    """Kind of thing that a task of type ``find-`` asks for; empty for other tasks."""
    kind = _KINDS.search(instruction)
    return kind[1] if kind else ""


def named_things(instruction: str) -> tuple[str, ...]:
    """All things that the instruction names."""
    things = _named(_THING.findall(instruction))
    names = (*focus_targets(instruction), *things, *answer_boxes(instruction))
    return tuple(dict.fromkeys(names))


def named_rooms(instruction: str) -> tuple[str, ...]:
    """The rooms that the instruction names."""
    return tuple(room for room in ROOMS if re.search(rf"\b{room}\b", instruction))


def _named(names: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name in names if not name.startswith(_VAGUE)))


def _names(text: str) -> tuple[str, ...]:
    """The names in a list of things: ``an axe``, ``a bowl (containing a red apple)``."""
    names = []
    for piece in _PIECE.split(text):
        name = piece.strip().removeprefix("containing ")
        name = re.sub(r"^(?:an?|the|some) ", "", name).removeprefix("substance called ")
        if not _NO_THING.match(name):
            names.append(name)
    return tuple(dict.fromkeys(names))
