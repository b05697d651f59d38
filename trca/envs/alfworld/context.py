"""The structural context key s~ and the memory line of ALFWorld, both from what was observed.

The key has the fields of the paper's table of context information: object location (``place``,
``found``), inventory and object state (``held``), task predicates met (``placed``), interaction
stage (``known``). It is coarse on purpose: contexts are compared among the few rollouts of one
task, and the normalisation of a small group amplifies noise. So a place counts by what it means
for the task, not by its name; ``benchmarks/rubric_quality.py`` measures what a finer key would buy.
"""

from __future__ import annotations

from functools import lru_cache

from trca.envs.alfworld.beliefs import Beliefs
from trca.envs.alfworld.binding import ALFWorldBinding
from trca.envs.alfworld.reading import kind
from trca.envs.memory import memory_line_of


def context_key(binding: ALFWorldBinding, beliefs: Beliefs) -> str:
    """The key of the present state, such as ``other closed|nothing|found 0|placed 0|known 1``.

    Fields:
        place: ``start``; ``source`` where a target waits; ``goal`` at a destination or by the
            lamp; ``appliance`` where the required state is given; else ``other``; then ``closed``
            if the receptacle is.
        held: ``nothing``, ``other``, or ``target`` with ``ready`` or ``raw`` for its state.
        found: Whether a target still to be dealt with has been seen (1 or 0).
        placed: Targets placed as asked; for a lamp, whether it is on.
        known: How many of the places the task needs (destination or lamp, appliance) were seen.
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
    known = (goal in sorts or lamp_seen) + (binding.appliance in sorts)
    return f"{place}|{held}|found {min(len(waiting), 1)}|placed {placed}|known {known}"


def memory_line(binding: ALFWorldBinding, beliefs: Beliefs) -> str:
    """What a reader without memory would need, in one short line.

    For instance ``At shelf 1. Holding mug 1 (clean). Seen mug 2 in desk 1. Checked drawer 1 2,
    desk 1.``: the place, the hand, known targets and lamps, and the receptacles whose contents were
    seen, by type in order of first sight.
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
