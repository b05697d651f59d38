"""Plans a way to success from the known state of a room.

The oracle plans with the true state, the demonstrator with beliefs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from trca.envs.alfworld import resources
from trca.envs.alfworld.binding import ALFWorldBinding
from trca.envs.alfworld.reading import kind


@dataclass(frozen=True)
class View:
    """The known state of a room, in displayed names.

    Attributes:
        receptacles: The receptacles of the room.
        here: The receptacles within reach.
        held: The object in hand, or empty.
        closed: The receptacles that are known to be closed.
        where: The receptacle of each known object that is not in hand.
        states: Known states by object; the state of a lamp is ``on``.
    """

    receptacles: Collection[str]
    here: Collection[str]
    held: str
    closed: Collection[str]
    where: Mapping[str, str]
    states: Mapping[str, Collection[str]]


@dataclass(frozen=True)
class Way:
    """A sequence of actions that solves the task or a part of it.

    Attributes:
        actions: The actions in order.
        missing: Number of the task's objects or lamps without a known location.
    """

    actions: tuple[str, ...]
    missing: int


def best_way(binding: ALFWorldBinding, view: View) -> Way | None:
    """The shortest plan among those with the fewest missing objects; None without any plan."""
    ways = _look_ways(binding, view) if binding.lamp else _place_ways(binding, view)
    best = min(ways, key=lambda way: (way.missing, len(way.actions)), default=None)
    return best if best is not None and best.actions else None


def may_hold(receptacle: str, thing: str) -> bool:
    """Whether a receptacle of this type may hold an object of this type."""
    names = resources.type_names()
    receptacle, thing = kind(receptacle), kind(thing)
    return names.get(thing, thing) in resources.can_contain(names.get(receptacle, receptacle))


def in_order(names: Iterable[str]) -> list[str]:
    """The names sorted by type and number."""
    return sorted(names, key=lambda name: (kind(name), int(name.rpartition(" ")[2])))


def _of(sort: str, names: Iterable[str]) -> list[str]:
    return in_order(name for name in names if kind(name) == sort)


def _look_ways(binding: ALFWorldBinding, view: View) -> Iterable[Way]:
    """Plans for holding an object under a lamp."""
    lamps = _of(binding.lamp, view.where)
    for thing in _of(binding.target, [*view.where, *filter(None, [view.held])]):
        walk = _Walk(view)
        if not walk.take(thing):
            continue
        if not lamps:
            yield Way(tuple(walk.actions), 1)
        for lamp in lamps:
            last = walk.copy()
            last.reach(view.where[lamp])
            if "on" not in view.states.get(lamp, ()):
                last.actions.append(f"use {lamp}")
            yield Way(tuple(last.actions), 0)


def _place_ways(binding: ALFWorldBinding, view: View) -> Iterable[Way]:
    """Plans for placing objects in a receptacle."""

    def fit(thing: str) -> bool:
        return not binding.state or binding.state in view.states.get(thing, ())

    for destination in _of(binding.destination, view.receptacles):
        things = _of(binding.target, [*view.where, *filter(None, [view.held])])
        left = [t for t in things if view.where.get(t) != destination or not fit(t)]
        missing = binding.quantity - (len(things) - len(left))
        walk = _Walk(view)
        while left and missing > 0:
            trips = []
            for thing in left:
                trip = walk.copy()
                if trip.take(thing) and (fit(thing) or trip.treat(binding)):
                    trip.put(destination)
                    trips.append((len(trip.actions), thing, trip))
            if not trips:
                break
            _, done, walk = min(trips, key=lambda trip: trip[0])
            left.remove(done)
            missing -= 1
        yield Way(tuple(walk.actions), missing)


class _Walk:
    """A simulated walk through a room that stores its changes only."""

    def __init__(self, view: View) -> None:
        self.actions: list[str] = []
        self._view = view
        self._here = set(view.here)
        self._held = view.held
        self._closed = set(view.closed)
        self._moved: dict[str, str] = {}

    def copy(self) -> _Walk:
        walk = _Walk(self._view)
        walk.actions = list(self.actions)
        walk._here, walk._held, walk._closed = set(self._here), self._held, set(self._closed)
        walk._moved = dict(self._moved)
        return walk

    def reach(self, receptacle: str, *, inside: bool = False) -> None:
        if receptacle not in self._here:
            self.actions.append(f"go to {receptacle}")
            self._here = {receptacle}
        if inside and receptacle in self._closed:
            self.actions.append(f"open {receptacle}")
            self._closed.discard(receptacle)

    def take(self, thing: str) -> bool:
        """Takes an object; False if there is no place for the object in hand."""
        if self._held == thing:
            return True
        source = self._moved.get(thing) or self._view.where[thing]
        if self._held:
            spots = [
                spot
                for spot in (*in_order(self._here), source, *in_order(self._view.receptacles))
                if may_hold(spot, self._held)
            ]
            if not spots:
                return False
            here, closed = self._here, self._closed
            self.put(min(spots, key=lambda spot: 2 * (spot not in here) + (spot in closed)))
        self.reach(source, inside=True)
        self.actions.append(f"take {thing} from {source}")
        self._held = thing
        return True

    def treat(self, binding: ALFWorldBinding) -> bool:
        """Gives the object in hand the required state; False without the appliance."""
        appliances = _of(binding.appliance, self._view.receptacles)
        if not appliances:
            return False
        appliance = next((a for a in appliances if a in self._here), appliances[0])
        self.reach(appliance)
        verb = {"hot": "heat", "cool": "cool", "clean": "clean"}[binding.state]
        self.actions.append(f"{verb} {self._held} with {appliance}")
        return True

    def put(self, receptacle: str) -> None:
        self.reach(receptacle, inside=True)
        self.actions.append(f"move {self._held} to {receptacle}")
        self._moved[self._held] = receptacle
        self._held = ""
