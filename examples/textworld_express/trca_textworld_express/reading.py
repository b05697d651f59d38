"""Reads CookingWorld's texts: the page that the agent sees, the recipe, and the instruction."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

CUTS: Final = {"chop": "chopped", "slice": "sliced", "dice": "diced"}
"""Verb of a cut -> the word for its result."""
HEATS: Final = {"fry": "fried", "roast": "roasted", "grill": "grilled"}
APPLIANCES: Final = {
    "fried": ("stove",),
    "roasted": ("oven",),
    "grilled": ("barbeque", "toaster"),
}
"""Result of cooking -> the appliances for it."""
KNIFE: Final = "knife"
MEAL: Final = "meal"
HOME: Final = "kitchen"
"""The only room where a meal can be prepared."""
_REFUSALS: Final = re.compile(
    r"Unknown action|You can't move there|That is already|Your inventory currently has \d+ items"
)
_ROOM: Final = re.compile(r"You are in the ([\w ]+?)\.(?: |$)")
_SENTENCES: Final = re.compile(
    r"(?:In one part of the room you see|There is also|You also see"
    r"|In another part of the room you see) "
)
_EXIT: Final = re.compile(r"o the (North|South|East|West) you see (the|a closed) ([\w -]+?)\.")
_THING: Final = re.compile(
    r"(?:(?:an?|some|the) )?((?:(?:raw|fried|roasted|grilled|chopped|sliced|diced) )*)(.+)"
)
_LIST: Final = re.compile(r", and |, | and ")
_CLOSED: Final = " that is closed"
_WITH: Final = re.compile(r",? that (?:has|contains|is) ")
_BOOK: Final = re.compile(r"Check the ([\w ]+?) in the ([\w ]+?) for the recipe")

Things = Mapping[str, tuple[str, ...]]
"""Names of things -> the words for their state, such as ``raw`` or ``chopped``."""


@dataclass(frozen=True)
class Page:
    """The content of an observation.

    Attributes:
        answer: Answer to the action; empty if the action only looks.
        room: Name of the room.
        fixtures: The furniture and appliances of the room, in order.
        closed: The fixtures that are closed.
        things: The visible things on and in the fixtures.
        exits: Directions with the room behind; empty text for a closed door.
        inventory: The things in the inventory.
    """

    answer: str
    room: str
    fixtures: tuple[str, ...]
    closed: tuple[str, ...]
    things: Things
    exits: Mapping[str, str]
    inventory: Things


def write_page(answer: str, look: str, inventory: str) -> str:
    """The observation: the answer, the room, the inventory, with empty lines between."""
    shown = [] if answer in (look, inventory) else [answer]
    return "\n\n".join([*shown, look, inventory])


def read_page(observation: str) -> Page:
    """Reads an observation."""
    *answers, look, inventory = ["", "", *observation.split("\n\n")][-3:]
    inside, _, outside = look.partition("\n")
    room = _ROOM.search(inside)
    fixtures: list[str] = []
    closed: list[str] = []
    things: dict[str, tuple[str, ...]] = {}
    for sentence in _SENTENCES.split(inside)[1:]:
        text = sentence.strip().removesuffix(".")
        name, *contents = _WITH.split(text, maxsplit=1)
        fixture = re.sub(r"^(?:an?|An?) (?:open )?", "", name)
        fixtures.append(fixture)
        if text.endswith(_CLOSED):
            closed.append(fixture)
        elif contents and contents[0] not in ("empty", "nothing on it"):
            things |= read_things(_LIST.split(contents[0].removesuffix(" on it")))
    held = [] if "is currently empty" in inventory else inventory.splitlines()[1:]
    return Page(
        answer="".join(answers),
        room=room[1] if room else "",
        fixtures=tuple(fixtures),
        closed=tuple(closed),
        things=things,
        exits={
            direction.lower(): name if kind == "the" else ""
            for direction, kind, name in _EXIT.findall(outside)
        },
        inventory=read_things(held),
    )


def read_things(names: list[str]) -> dict[str, tuple[str, ...]]:
    """Reads descriptions of things, such as ``a raw chopped carrot``."""
    things = {}
    for name in names:
        if found := _THING.fullmatch(name.strip()):
            things[found[2]] = tuple(found[1].split())
    return things


def read_recipe(text: str) -> dict[str, tuple[str, ...]]:
    """The ingredients of a recipe with the words for their required states; empty for no recipe."""
    _, _, rest = text.partition("Ingredients:\n")
    ingredients, _, directions = rest.partition("\nDirections:\n")
    recipe: dict[str, tuple[str, ...]] = {
        name.strip(): () for name in ingredients.splitlines() if name.strip()
    }
    for line in directions.splitlines():
        verb, _, name = line.strip().partition(" the ")
        result = (CUTS | HEATS).get(verb)
        if result and name in recipe:
            recipe[name] += (result,)
    return recipe if directions else {}


def refused(answer: str) -> bool:
    """Whether an answer refuses the action."""
    return _REFUSALS.match(answer) is not None


def recipe_place(instruction: str) -> tuple[str, str]:
    """The thing that has the recipe and its room; empty texts if the instruction has none."""
    place = _BOOK.search(instruction)
    return (place[1], place[2]) if place else ("", "")
