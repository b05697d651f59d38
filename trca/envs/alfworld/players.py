"""The players of ALFWorld: the oracle, the demonstrator, and the plans of both.

Both plan a way to success from the known state of a room: the oracle from the true state, the
demonstrator from the agent's observations. The oracle's plan is short, but not always a shortest
one: the planner handles one object at a time and knows one location per object. For 89 of the 4,027
official games, the walkthrough of the release is shorter.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from trca.envs.alfworld.beliefs import Beliefs
from trca.envs.alfworld.binding import ALFWorldBinding, State, bind
from trca.envs.alfworld.game import Game
from trca.envs.alfworld.reading import kind
from trca.envs.alfworld.resources import OPENABLE, TYPE_NAMES, can_contain
from trca.envs.alfworld.simulator import Simulator
from trca.envs.text_env import OracleError

_STATES: Final[dict[str, State]] = {
    "ishot": "hot",
    "iscool": "cool",
    "isclean": "clean",
    "istoggled": "on",
}


def oracle_action(simulator: Simulator) -> str:
    """The next action of a plan for success, from any state of the game.

    There is no plan in a room without the required appliance.
    """
    binding = bind(simulator.game.task)
    way = best_way(binding, true_view(simulator))
    if way is None or way.missing:
        raise OracleError(f"no plan for {binding} from the current state: reset the game")
    return way.actions[0]


def walkthrough(game: Game) -> tuple[str, ...]:
    """Actions that complete a game, in order: the game file's, else the oracle's."""
    if game.walkthrough:
        return game.walkthrough
    simulator, actions = Simulator(game), list[str]()
    while not simulator.done:
        actions.append(oracle_action(simulator))
        simulator.step(actions[-1])
    return tuple(actions)


def true_view(simulator: Simulator) -> Beliefs:
    """The true state of a simulator, as the beliefs of an agent that knows everything."""
    game, names = simulator.game, simulator.game.names
    view = Beliefs(names[receptacle] for receptacle in game.location)
    view.here = frozenset(names[r] for r in game.receptacles_at.get(simulator.place, ()))
    view.held = names.get(simulator.held, "")
    view.closed = {names[receptacle] for receptacle in game.openable - simulator.opened}
    view.where = {names[o]: names[r] for r, inside in simulator.contents.items() for o in inside}
    for fact, state in _STATES.items():
        for thing in simulator.states[fact]:
            view.states[names[thing]] = (*view.states.get(names[thing], ()), state)
    return view


def demonstrated_action(
    binding: ALFWorldBinding, beliefs: Beliefs, admissible: Sequence[str]
) -> str:
    """The next action of a known way to success, else of a search; after any actions."""
    way = best_way(binding, beliefs)
    if way is not None and way.actions[0] in admissible:
        return way.actions[0]
    search = _search(binding, beliefs)
    return search if search in admissible else "look"


def demonstrated_subgoal(binding: ALFWorldBinding, beliefs: Beliefs) -> str:
    """Verb and object type of the next action that is neither walking nor opening.

    Examples: ``take mug``, ``move mug`` and ``use desklamp``. Without a known way: ``find mug``.
    """
    way = best_way(binding, beliefs)
    for action in () if way is None else way.actions:
        verb, thing, *_ = action.split(" ")
        if verb not in ("go", "open"):
            return f"{verb} {thing}"
    return f"find {binding.lamp if _seeks_lamp(binding, beliefs) else binding.target}"


def _seeks_lamp(binding: ALFWorldBinding, beliefs: Beliefs) -> bool:
    """Whether the agent holds the target and only needs the lamp."""
    return bool(binding.lamp) and kind(beliefs.held) == binding.target


def _search(binding: ALFWorldBinding, beliefs: Beliefs) -> str:
    """The next action of a search: likely receptacles first, then open before closed."""
    lamp_only = _seeks_lamp(binding, beliefs)

    def cost(receptacle: str) -> tuple[bool, bool]:
        closable = TYPE_NAMES.get(kind(receptacle), "") in OPENABLE
        likely = not closable if lamp_only else may_hold(receptacle, f"{binding.target} 1")
        return not likely, closable and receptacle not in beliefs.here

    unsearched = [r for r in in_order(beliefs.receptacles) if r not in beliefs.searched]
    if not unsearched:
        return "look"
    receptacle = min(unsearched, key=cost)
    if receptacle not in beliefs.here:
        return f"go to {receptacle}"
    return f"{'open' if receptacle in beliefs.closed else 'examine'} {receptacle}"


class Way(NamedTuple):
    """Actions for the task or a part of it, and the number of objects or lamps still to find."""

    actions: tuple[str, ...]
    missing: int


def best_way(binding: ALFWorldBinding, view: Beliefs) -> Way | None:
    """The shortest plan among those with the fewest missing objects; None without any plan.

    The plan depends on the attributes ``receptacles``, ``here``, ``held``, ``closed``, ``where``
    and ``states`` of the view.
    """
    ways = _look_ways(binding, view) if binding.lamp else _place_ways(binding, view)
    best = min(ways, key=lambda way: (way.missing, len(way.actions)), default=None)
    return best if best is not None and best.actions else None


def may_hold(receptacle: str, thing: str) -> bool:
    """Whether a receptacle of this type may hold an object of this type."""
    receptacle, thing = kind(receptacle), kind(thing)
    return TYPE_NAMES.get(thing, thing) in can_contain(TYPE_NAMES.get(receptacle, receptacle))


def in_order(names: Iterable[str]) -> list[str]:
    """The names sorted by type and number."""
    return sorted(names, key=lambda name: (kind(name), int(name.rpartition(" ")[2])))


def _of(sort: str, names: Iterable[str]) -> list[str]:
    return in_order(name for name in names if kind(name) == sort)


def _look_ways(binding: ALFWorldBinding, view: Beliefs) -> Iterable[Way]:
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


def _place_ways(binding: ALFWorldBinding, view: Beliefs) -> Iterable[Way]:
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

    def __init__(self, view: Beliefs) -> None:
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
