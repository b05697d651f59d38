"""Plays ALFWorld games: the rules and the text of alfworld 0.4.2 without its interpreters.

Observations, admissible actions and success equal those of the original environment;
``benchmarks/alfworld_parity.py`` checks this step by step. A game is read once and shared. A
simulator stores changes only, so a process can hold thousands. Simulators share no mutable state.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable
from typing import Final

from trca.envs.alfworld import pages as text
from trca.envs.alfworld.game import Game, GameFileError
from trca.envs.alfworld.pddl import Fact

__all__ = ["Game", "GameFileError", "Simulator"]

_KNIVES: Final = frozenset({"knifetype", "butterknifetype"})


class Simulator:
    """One play of a game.

    Attributes:
        admissible_actions: The admissible actions now, sorted.
        done: Whether the game is over. Only success ends a game.
        place: Location of the agent. Hidden from agents, as are all further attributes.
        held: The object in hand, or empty.
        contents: Objects in each receptacle, sorted.
        states: Predicate of `game.STATES` -> objects with this state.
    """

    def __init__(self, game: Game) -> None:
        self.game = game
        self.reset()

    def reset(self) -> str:
        """Restarts the game and returns the first observation."""
        game = self.game
        self.place = game.start
        self.held = ""
        self.opened = set(game.opened)
        self.contents: dict[str, list[str] | tuple[str, ...]] = dict(game.contents)
        self._places = dict(game.places)
        self.states = {state: set(things) for state, things in game.states.items()}
        self._left: set[tuple[str, str]] = set()
        self._offer()
        self.won = self._goal_holds()
        self.done = False
        room = [game.names[receptacle] for receptacle in sorted(game.location)]
        self._last = (
            f"-= Welcome to TextWorld, ALFRED! =-\n\n{self._look(room)}\n\n"
            f"Your task is to: {game.task}"
        )
        return self._last

    def step(self, action: str) -> str:
        """Carries out an action and returns the observation; any string is legal.

        After the end of the game, the last observation is repeated.
        """
        if self.done:
            return self._last
        effect = self._actions.get(action.strip())
        if effect is None:
            self._last = text.REJECTED
        else:
            self._last = self._act(*effect)
            self._offer()
            self.won = self._goal_holds()
        self.done = self.won
        return self._last

    def _offer(self) -> None:
        """Collects the actions with satisfied preconditions, by name."""
        game, names, held = self.game, self.game.names, self.held
        here = game.receptacles_at.get(self.place, ())
        actions: dict[str, tuple[str, str, str]] = {
            action: ("goto", "", receptacle)
            for action, receptacle in game.goto.items()
            if receptacle not in here
        }
        for word in ("help", "inventory", "look"):
            actions[word] = (word, "", "")
        for receptacle in here:
            box = names[receptacle]
            actions[f"examine {box}"] = ("examine", "", receptacle)
            accessible = True
            if receptacle in game.openable:
                accessible = receptacle in self.opened
                verb = "close" if accessible else "open"
                actions[f"{verb} {box}"] = (verb, "", receptacle)
            for thing in self.contents.get(receptacle, ()):
                if accessible and not held and thing in game.pickupable:
                    actions[f"take {names[thing]} from {box}"] = ("take", thing, receptacle)
                if thing in game.toggleable:
                    actions[f"use {names[thing]}"] = ("use", thing, "")
            if held:
                treat = game.treats.get(receptacle, "")
                if treat and held in game.treatable[treat]:
                    actions[f"{treat} {names[held]} with {box}"] = (treat, held, receptacle)
                kinds = (game.receptacle_type.get(receptacle, ""), game.object_type.get(held, ""))
                if accessible and kinds in game.can_contain:
                    actions[f"move {names[held]} to {box}"] = ("move", held, receptacle)
        if held:
            actions[f"examine {names[held]}"] = ("examine", held, "")
            if game.object_type.get(held) in _KNIVES:
                for thing in game.sliceable:
                    if self.place in self._places.get(thing, ()):
                        action = f"slice {names[thing]} with {names[held]}"
                        actions[action] = ("slice", thing, held)
        self._actions = actions
        self.admissible_actions = sorted(actions)

    def _act(self, verb: str, thing: str, other: str) -> str:
        game, names = self.game, self.game.names
        match verb:
            case "goto":
                self.place = game.location[other]
                return f"You arrive at {names[other]}. {self._describe(other)}"
            case "open":
                self.opened.add(other)
                return f"You open the {names[other]}. {self._describe(other)}"
            case "close":
                self.opened.discard(other)
                return f"You close the {names[other]}."
            case "take":
                self.contents[other] = [t for t in self.contents[other] if t != thing]
                self._places[thing] = self._places.get(thing, frozenset()) - {self.place}
                self._left.add((thing, other))
                self.held = thing
                return f"You pick up the {names[thing]} from the {names[other]}."
            case "move":
                things = [t for t in self.contents.get(other, ()) if t != thing]
                insort(things, thing)
                self.contents[other] = things
                self._places[thing] = self._places.get(thing, frozenset()) | {self.place}
                self._left.discard((thing, other))
                self.held = ""
                return f"You move the {names[thing]} to the {names[other]}."
            case "heat":
                self.states["ishot"].add(thing)
                self.states["iscool"].discard(thing)
                return f"You heat the {names[thing]} using the {names[other]}."
            case "clean":
                self.states["isclean"].add(thing)
                return f"You clean the {names[thing]} using the {names[other]}."
            case "cool":
                self.states["iscool"].add(thing)
                self.states["ishot"].discard(thing)
                return f"You cool the {names[thing]} using the {names[other]}."
            case "use":
                self.states["istoggled"].add(thing)
                return f"You turn on the {names[thing]}."
            case "slice":
                self.states["issliced"].add(thing)
                return f"You sliced the {names[thing]} with the {names[other]}."
            case "examine":
                return self._inspect(thing) if thing else self._describe(other)
            case "inventory":
                if self.held:
                    return f"You are carrying: a {names[self.held]}."
                return "You are not carrying anything."
            case "look":
                return self._look()
            case _:
                return text.HELP

    def _describe(self, receptacle: str) -> str:
        names = self.game.names
        return text.contents(
            names[receptacle],
            [names[thing] for thing in self.contents.get(receptacle, ())],
            openable=receptacle in self.game.openable,
            opened=receptacle in self.opened,
        )

    def _inspect(self, thing: str) -> str:
        game, name = self.game, self.game.names[thing]
        if thing in game.vessels:
            inside = text.listing(game.names[held] for held in game.inside.get(thing, ()))
            return f"This is a normal {name}. In it, you see {inside}."
        return text.inspected(
            name,
            {state for state, things in self.states.items() if thing in things},
            toggleable=thing in game.toggleable,
            sliceable=thing in game.sliceable,
        )

    def _look(self, room: Iterable[str] = ()) -> str:
        """The surroundings. As in the original, only the first observation lists the ``room``."""
        names = self.game.names
        here = self.game.receptacles_at.get(self.place, ())
        if not here:
            seen = text.listing(room)
            return f"You are in the middle of a room. Looking quickly around you, you see {seen}."
        beside = text.listing(
            names[thing]
            for thing, receptacle in sorted(self._left)
            if receptacle in here and self.place in self._places.get(thing, ())
        )
        facing = text.joined([names[receptacle] for receptacle in here])
        return f"You are facing the {facing}. Next to it, you see {beside}."

    def _goal_holds(self) -> bool:
        return all(any(all(map(self._holds, case)) for case in cases) for cases in self.game.goal)

    def _holds(self, fact: Fact) -> bool:
        match fact:
            case ("inreceptacle", thing, receptacle):
                return thing in self.contents.get(receptacle, ())
            case ("atlocation", _, place):
                return place == self.place
            case ("holds", _, thing):
                return thing == self.held
            case ("opened", receptacle):
                return receptacle in self.opened
            case (state, thing):
                return thing in self.states[state]
            case _:
                return False
