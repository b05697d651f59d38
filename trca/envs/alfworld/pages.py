"""ALFWorld's sentences and displayed names: its text grammar as Python functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from typing import Final

REJECTED: Final = "Nothing happens."
"""The observation after an action that is not carried out."""
HELP: Final = """\
Available commands:
  look:                             look around your current location
  inventory:                        check your current inventory
  go to (receptacle):               move to a receptacle
  open (receptacle):                open a receptacle
  close (receptacle):               close a receptacle
  take (object) from (receptacle):  take an object from a receptacle
  move (object) to (receptacle):  place an object in or on a receptacle
  examine (something):              examine a receptacle or an object
  use (object):                     use an object
  heat (object) with (receptacle):  heat an object using a receptacle
  clean (object) with (receptacle): clean an object using a receptacle
  cool (object) with (receptacle):  cool an object using a receptacle
  slice (object) with (object):     slice an object using a sharp object
"""
_ADJECTIVES: Final = (
    (("isclean", "ishot", "issliced"), "hot and clean sliced "),
    (("isclean", "iscool", "issliced"), "cool and clean sliced "),
    (("isclean", "issliced"), "clean sliced "),
    (("ishot", "issliced"), "hot sliced "),
    (("iscool", "issliced"), "cool sliced "),
    (("isclean", "ishot"), "hot and clean "),
    (("isclean", "iscool"), "cool and clean "),
    (("ishot",), "hot "),
    (("isclean",), "clean "),
    (("iscool",), "cold "),
)


def joined(words: list[str]) -> str:
    """The words as ALFWorld lists them, with commas and ``, and`` before the last word."""
    if not words:
        return "nothing"
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])}, and {words[-1]}"


def listing(names: Iterable[str]) -> str:
    """Names with articles, as ALFWorld lists them."""
    return joined([f"a {name}" for name in names])


def contents(receptacle: str, things: Iterable[str], *, openable: bool, opened: bool) -> str:
    """The description of a receptacle's contents."""
    if not openable:
        return f"On the {receptacle}, you see {listing(things)}."
    if opened:
        return f"The {receptacle} is open. In it, you see {listing(things)}."
    return f"The {receptacle} is closed."


def inspected(thing: str, states: Collection[str], *, toggleable: bool, sliceable: bool) -> str:
    """The description of an object that can hold nothing, by its `game.STATES`."""
    for needed, adjective in _ADJECTIVES:
        if all(state in states for state in needed):
            return f"This is a {adjective}{thing}."
    if toggleable and "istoggled" in states:
        return f"This {thing} is on."
    if sliceable and "issliced" in states:
        return f"This is a sliced {thing}."
    return f"There's nothing special about {thing}."


def display_names(ids: Collection[str]) -> dict[str, str]:
    """The displayed name of each id, as in ``mug 1``.

    Within a type, numbers fall in the order of the ids. An id without ``_bar_`` is displayed
    unchanged with a trailing space, as in ALFWorld.
    """
    left = Counter(_type(name) for name in ids if "_bar_" in name)
    names = {}
    for name in sorted(ids):
        if "_bar_" in name:
            names[name] = f"{_type(name)} {left[_type(name)]}"
            left[_type(name)] -= 1
        else:
            names[name] = f"{name} "
    return names


def _type(name: str) -> str:
    return name.split("_bar_", 1)[0] + ("basin" if "basin" in name else "")
