"""A weak player that reads observations only; the tiny policy imitates its actions.

The player explores the house, focuses on things that the instruction names, and brings the thing of
its focus to an answer box. Where the instruction names a kind (a plant, an animal), the player
guesses a thing that it sees. Experiments are beyond it.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from typing import Final

from trca_scienceworld.adapter import ScienceAdapter
from trca_scienceworld.reading import ROOMS, choices

_FIXTURES: Final = re.compile(
    r"\b(?:agent|air|bathtub|bed|beehive|bench|blast furnace|box|book shelf|chair|closet|couch"
    r"|counter|cupboard|desk|door|fire pit|fountain|freezer|fridge|ground|oven|paint|picture|sink"
    r"|sofa|stove|table|toilet|water)\b"
)
"""Things that a guess leaves out: furniture, and liquids that no hand picks up."""
_GROUNDS: Final[Mapping[str, tuple[str, ...]]] = {
    "animal": ("outside",),
    "plant": ("greenhouse", "outside"),
    "living thing": ("outside", "greenhouse"),
}
"""Rooms to search first for a kind."""


def next_action(adapter: ScienceAdapter) -> str:
    """The next action of the player."""
    page, binding = adapter.page, adapter.binding
    if offered := choices(page.answer):
        lines = [line for line in page.answer.splitlines() if "(in inventory" in line]
        return lines[0].partition(":")[0] if lines else offered[0]
    done = set(adapter.focused)
    for name in binding.focus:
        thing = _seen(adapter, name)
        if thing and not done & {name, thing}:
            return f"focus on {thing}"
    if not adapter.focused and (guess := _guess(adapter)):
        return f"focus on {guess}"
    if adapter.focused and binding.boxes:
        return _bring(adapter, adapter.focused[-1])
    return _explore(adapter)


def _bring(adapter: ScienceAdapter, thing: str) -> str:
    """Takes the thing, goes to the rooms of the instruction, and moves it to a box."""
    held = any(f"{name} ".startswith(f"{thing} ") for name in adapter.holds)
    box = next((name for name in adapter.binding.boxes if _seen(adapter, name)), None)
    pick, move = f"pick up {thing}", f"move {thing} to {box}"
    if box and (held or thing in adapter.page.things):
        return move
    if not held and thing in adapter.page.things and pick not in adapter.refused:
        return pick
    return _explore(adapter)


def _guess(adapter: ScienceAdapter) -> str:
    """A visible thing of the wanted kind, as far as names and rooms tell; empty for none."""
    kind, page = adapter.binding.kind, adapter.page
    if not kind:
        return ""
    grounds = _GROUNDS.get(kind, ())
    if grounds and page.room not in grounds:
        return ""
    things = [
        name
        for name in page.things
        if not _FIXTURES.search(name) and f"focus on {name}" not in adapter.refused
    ]
    young = [name for name in things if name.split()[-1] in ("egg", "tree", "seed", "plant")]
    things = young or things if grounds else [name for name in things if name not in young]
    if not things:
        return ""
    draw = zlib.crc32("|".join(page.things).encode())
    return things[draw % len(things)]


def _explore(adapter: ScienceAdapter) -> str:
    """Goes towards the first room of interest that the agent has not seen."""
    page, binding = adapter.page, adapter.binding
    unseen = [room for room in ROOMS if room not in adapter.rooms]
    named = [room for room in binding.rooms if room != page.room]
    wanted = [room for room in named if room in unseen]
    grounds = [room for room in _GROUNDS.get(binding.kind, ()) if room in unseen]
    if adapter.focused or not binding.kind:
        aims = [*wanted, *(named if adapter.focused else ()), *unseen]
    else:
        aims = [*grounds, *unseen]
    if not aims:
        return "look around"
    way = _way(page.room, aims[0])
    if page.doors.get(way) is False:
        return f"open door to {way}"
    return f"go to {way}"


def _way(room: str, aim: str) -> str:
    """The next room on a shortest way through the house."""
    first = {room: ""}
    queue = [room]
    for place in queue:
        for door in ROOMS.get(place, ()):
            if door not in first:
                first[door] = first[place] or door
                queue.append(door)
    return first.get(aim) or aim


def _seen(adapter: ScienceAdapter, name: str) -> str:
    """The visible thing of a name, in the room or in the inventory; empty for none."""
    things = (*adapter.page.things, *adapter.holds)
    return next((thing for thing in things if f" {name} " in f" {thing} "), "")
