"""A cook that reads observations only; the tiny policy imitates its actions.

The cook reads the recipe, takes what it needs where it sees it, explores the rooms, cuts, cooks and
eats. It looks into the fridge, and into no other closed container: a knife in the cutlery drawer or
an ingredient in the cupboard stays out of its sight, and it walks about until the episode ends.
"""

from __future__ import annotations

from trca_textworld_express.adapter import CookingAdapter
from trca_textworld_express.reading import APPLIANCES, CUTS, HEATS, HOME, KNIFE, MEAL

_OPENED = ("fridge",)
_SURFACES = ("counter", "folding chair", "patio table", "desk", "showcase")


def next_action(adapter: CookingAdapter) -> str:
    """The next action of the cook."""
    page = adapter.page
    if MEAL in page.inventory:
        return f"eat {MEAL}"
    if not adapter.recipe:
        book = adapter.binding.book
        if book in page.things or book in page.inventory:
            return f"read {book}"
        return _go(adapter, adapter.places.get(book, HOME))
    return _take(adapter) or _prepare(adapter) or _search(adapter)


def _take(adapter: CookingAdapter) -> str:
    """Takes a visible thing that is missing."""
    for name in adapter.missing:
        if name in adapter.page.things:
            if adapter.last == f"take {name} refused":  # the inventory is full
                return _put_down(adapter)
            return f"take {name}"
    return ""


def _put_down(adapter: CookingAdapter) -> str:
    page = adapter.page
    surface = next((f for f in page.fixtures if f not in page.closed and f in _SURFACES), "")
    needed = {*adapter.recipe, KNIFE}
    name = next((each for each in page.inventory if each not in needed), "")
    return f"put {name} in {surface}" if name and surface else "inventory"


def _prepare(adapter: CookingAdapter) -> str:
    """Carries out a direction for an ingredient in the inventory; at the end prepares the meal."""
    page = adapter.page
    if not adapter.missing and not adapter.directions:
        return f"prepare {MEAL}" if page.room == HOME else _go(adapter, HOME)
    for verb, name in adapter.directions:
        if name not in page.inventory:
            continue
        if verb in CUTS and KNIFE in page.inventory:
            return f"{verb} {name}"
        appliances = APPLIANCES.get(HEATS.get(verb, ""), ())
        if place := next((each for each in appliances if each in page.fixtures), ""):
            return f"cook {name} in {place}"
    return ""


def _search(adapter: CookingAdapter) -> str:
    """Opens a container, goes where a needed thing or appliance was seen, or explores."""
    page = adapter.page
    for name in _OPENED:
        if name in page.closed:
            return f"open {name}"
    places = [adapter.places[name] for name in adapter.missing if name in adapter.places]
    heats = [APPLIANCES[HEATS[verb]] for verb, _ in adapter.directions if verb in HEATS]
    rooms = [room for room in map(adapter.room_of, heats) if room]
    aims = [*places, *(rooms if not adapter.missing else ()), ""]
    return _go(adapter, aims[0])


def _go(adapter: CookingAdapter, aim: str) -> str:
    """Goes to a room, or explores; walks about if there is nothing left to explore."""
    page = adapter.page
    direction = adapter.way(aim) or adapter.way("")
    if not direction:
        exits = list(page.exits)
        direction = exits[adapter.steps % len(exits)] if exits else ""
    if not direction:
        return "look around"
    return f"move {direction}" if page.exits[direction] else f"open door to {direction}"
