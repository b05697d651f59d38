"""The structural context key s~ and the memory line of ALFWorld, both from observations.

The key has the fields of the paper's table of context information: object location (``place``,
``found``), inventory and object state (``held``), satisfied task predicates (``placed``) and
interaction stage (``known``). The key is coarse on purpose: a context group has few rollouts of one
task, and normalisation amplifies the noise of small groups. Therefore a place enters by its role in
the task, not by its name. ``benchmarks/rubric_quality.py`` measures the benefit of a finer key.
"""

from __future__ import annotations

from functools import lru_cache

from trca.envs.adapter import memory_line_of
from trca.envs.alfworld.beliefs import Beliefs
from trca.envs.alfworld.binding import ALFWorldBinding
from trca.envs.alfworld.reading import kind


def context_key(binding: ALFWorldBinding, beliefs: Beliefs) -> str:
    """The key of the current state, such as ``other closed|nothing|found 0|placed 0|known 1``.

    Fields:
        place: ``start``; ``source`` where an unplaced target is; ``goal`` at a destination or by
            the lamp; ``appliance`` at the receptacle for the required state; else ``other``.
            ``closed`` follows if the receptacle is closed.
        held: ``nothing``, ``other``, or ``target`` with ``ready`` or ``raw`` for its state.
        found: Whether the receptacle of an unplaced target is known (1 or 0).
        placed: Number of targets placed as required; for a lamp, whether the lamp is on.
        known: Number of known places among the places that the task needs (destination or lamp,
            appliance).
    """
    target, goal = binding.target, binding.destination
    waiting: set[str] = set()
    placed = 0
    lamp_seen = lamp_here = False
    for thing, spot in beliefs.located(target):
        if kind(spot) == goal and _ready(binding, beliefs, thing):
            placed += 1
        else:
            waiting.add(spot)
    for lamp, spot in beliefs.located(binding.lamp):
        lamp_seen = True
        lamp_here = lamp_here or spot in beliefs.here
        placed += "on" in beliefs.states.get(lamp, ())
    place_type = kind(beliefs.place)
    if not beliefs.place:
        place = "start"
    elif not waiting.isdisjoint(beliefs.here):
        place = "source"
    elif place_type == goal or lamp_here:
        place = "goal"
    elif place_type == binding.appliance:
        place = "appliance"
    else:
        place = "other"
    if beliefs.place in beliefs.closed:
        place += " closed"
    if not beliefs.held:
        held = "nothing"
    elif kind(beliefs.held) != target:
        held = "other"
    else:
        held = "target ready" if _ready(binding, beliefs, beliefs.held) else "target raw"
    sorts = {kind(visited) for visited in beliefs.visited}
    known_places = (goal in sorts or lamp_seen) + (binding.appliance in sorts)
    return f"{place}|{held}|found {min(len(waiting), 1)}|placed {placed}|known {known_places}"


def memory_line(binding: ALFWorldBinding, beliefs: Beliefs) -> str:
    """One short line for a reader without memory.

    Example: ``At shelf 1. Holding mug 1 (clean). Seen mug 2 in desk 1. Checked drawer 1 2, desk
    1.`` The line contains the place, the object in hand, known targets and lamps, and the
    receptacles with observed contents, by type in order of first sight.
    """
    parts = [f"At {beliefs.place}." if beliefs.place else "At start."]
    parts.append(f"Holding {_named(beliefs, beliefs.held) or 'nothing'}.")
    seen = [
        f"{_named(beliefs, thing)} in {spot}"
        for sort in (binding.target, binding.lamp)
        for thing, spot in beliefs.located(sort)
    ]
    if seen:
        parts.append(f"Seen {', '.join(seen)}.")
    if beliefs.searched:
        parts.append(f"Checked {_by_type(tuple(beliefs.searched))}.")
    return memory_line_of(parts)


@lru_cache(maxsize=4096)
def _by_type(names: tuple[str, ...]) -> str:
    numbers: dict[str, list[str]] = {}
    for name in names:
        sort, _, number = name.rpartition(" ")
        numbers.setdefault(sort, []).append(number)
    return ", ".join(f"{sort} {' '.join(ns)}" for sort, ns in numbers.items())


def _ready(binding: ALFWorldBinding, beliefs: Beliefs, thing: str) -> bool:
    return not binding.state or binding.state in beliefs.states.get(thing, ())


def _named(beliefs: Beliefs, thing: str) -> str:
    states = beliefs.states.get(thing)
    return f"{thing} ({', '.join(states)})" if states else thing
