"""An agent's knowledge of an ALFWorld room, derived from its actions and observations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from trca.envs.alfworld.binding import State
from trca.envs.alfworld.reading import Action, kind, things

_TRANSFORMED: Final[dict[str, State]] = {"heat": "hot", "clean": "clean", "cool": "cool"}
_UNDONE: Final[dict[str, State]] = {"heat": "cool", "cool": "hot"}
_EXAMINED: Final[tuple[tuple[str, State], ...]] = (
    ("hot", "hot"),
    ("cool", "cool"),
    ("cold", "cool"),
    ("clean", "clean"),
    ("sliced", "sliced"),
)


class Beliefs:
    """The room as observed so far.

    Attributes:
        place: The receptacle of the last ``go to``; empty before the first.
        here: All receptacles at the agent's place.
        held: The object in hand, or empty.
        visited: Receptacles that the agent went to, in order (values unused).
        searched: Receptacles with observed contents, in order (values unused).
        closed, opened: Receptacles that are known to be closed or open.
        where: The receptacle of each observed object that is not in hand.
        first_seen: The receptacle in which each object was first observed.
        states: Known states by object; objects without known state are absent.
    """

    def __init__(self, receptacles: Iterable[str] = ()) -> None:
        self.receptacles = frozenset(receptacles)
        self.place = ""
        self.here: frozenset[str] = frozenset()
        self.held = ""
        self.visited: dict[str, None] = {}
        self.searched: dict[str, None] = {}
        self.closed: set[str] = set()
        self.opened: set[str] = set()
        self.where: dict[str, str] = {}
        self.first_seen: dict[str, str] = {}
        self.states: dict[str, tuple[State, ...]] = {}
        self._moved: dict[str, str] = {}
        self._seen: dict[str, list[str]] = {}

    def update(self, action: Action, text: str, admissible: Sequence[str]) -> None:
        """Updates the beliefs after an accepted action."""
        match action.verb:
            case "goto":
                self.place = action.receptacle
                self.visited.setdefault(action.receptacle)
                examinable = {each[8:] for each in admissible if each.startswith("examine ")}
                self.here = (self.receptacles & examinable) | {self.place}
                self._look_inside(action.receptacle, text)
                self._read_offers(admissible)
            case "open":
                self._look_inside(action.receptacle, text)
                self._read_offers(admissible)
            case "close":
                self.opened.discard(action.receptacle)
                self.closed.add(action.receptacle)
            case "take":
                self._see(action.object, action.receptacle)
                self.where.pop(action.object, None)
                self._moved.pop(action.object, None)
                self.held = action.object
            case "move":
                self.held = ""
                self.where[action.object] = action.receptacle
                first = self.first_seen.setdefault(action.object, action.receptacle)
                if first != action.receptacle:
                    self._moved[action.object] = action.receptacle
                self._read_offers(admissible)
            case "heat" | "clean" | "cool":
                self._gain(action.object, _TRANSFORMED[action.verb], _UNDONE.get(action.verb, ""))
            case "slice":
                self._gain(action.object, "sliced")
            case "use":
                if text.startswith("You turn on"):
                    self._gain(action.object, "on")
            case "examine" if action.object in self.receptacles:
                self._look_inside(action.object, text)
            case "examine":
                self._examine(action.object, text)
            case "look" if self.place:
                for thing in things(text):
                    self._see(thing, self.place)

    def snapshot(self) -> object:
        """A hashable value; equal if and only if the known states are equal."""
        return (
            len(self.first_seen) + len(self.visited) + len(self.searched),
            self.place,
            self.held,
            frozenset(self.opened),
            frozenset(self._moved.items()),
            frozenset(self.states.items()),
        )

    def located(self, sort: str) -> list[tuple[str, str]]:
        """The objects of a type with known receptacle, as pairs (object, receptacle)."""
        where = self.where
        return [(thing, where[thing]) for thing in self._seen.get(sort, ()) if thing in where]

    def within_reach(self, action: Action) -> bool:
        """Whether everything in an action is known to be within reach."""
        match action.verb:
            case "goto":
                return action.receptacle in self.receptacles
            case "open" | "close":
                return action.receptacle in self.here
            case "take":
                at = self.where.get(action.object)
                return action.receptacle in self.here and at == action.receptacle
            case "move" | "heat" | "clean" | "cool":
                return action.object == self.held and action.receptacle in self.here
            case "slice":
                return action.tool == self.held and self.where.get(action.object) in self.here
            case "use":
                return self.where.get(action.object) in self.here
            case "examine":
                return (
                    action.object == self.held
                    or action.object in self.here
                    or self.where.get(action.object) in self.here
                )
            case verb:
                return verb != ""

    def _look_inside(self, receptacle: str, text: str) -> None:
        _, marker, listing = text.partition(f"the {receptacle}, you see ")
        if not marker:
            _, marker, listing = text.partition(f"The {receptacle} is open. In it, you see ")
            if not marker:
                self.closed.add(receptacle)
                return
            self.closed.discard(receptacle)
            self.opened.add(receptacle)
        self.searched.setdefault(receptacle)
        for thing in things(listing):
            self._see(thing, receptacle)

    def _read_offers(self, admissible: Sequence[str]) -> None:
        for action in admissible:
            if action.startswith("take "):
                thing, _, receptacle = action[5:].partition(" from ")
                self._see(thing, receptacle)

    def _see(self, thing: str, receptacle: str) -> None:
        if thing not in self.first_seen:
            self.first_seen[thing] = self.where[thing] = receptacle
            self._seen.setdefault(kind(thing), []).append(thing)

    def _gain(self, thing: str, state: State, lost: str = "") -> None:
        kept = {s for s in self.states.get(thing, ()) if s != lost}
        self.states[thing] = tuple(sorted(kept | {state}))

    def _examine(self, thing: str, text: str) -> None:
        words = text.split()
        for word, state in _EXAMINED:
            if word in words:
                self._gain(thing, state)
        if text.startswith(f"This {thing} is on"):
            self._gain(thing, "on")
