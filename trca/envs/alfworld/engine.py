"""Plays ALFWorld games: the rules and the text of alfworld 0.4.2, without its interpreters.

game = Game.from_file("game.tw-pddl")
session = Session(game)
observation = session.reset()
observation = session.step("go to fridge 1")

Every official game carries the same PDDL domain and the same text grammar but for the task line, so
both are written out here as code and recognised by their hash; a game with another domain or grammar
is refused. Observations, admissible commands and success equal those of the stock environment, which
``benchmarks/alfworld_parity.py`` checks step by step. A game is parsed once and shared; a session
holds only what has changed, so thousands fit in a process, and sessions share nothing mutable.
"""

from __future__ import annotations

import hashlib
import json
import re
from bisect import insort
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from trca.envs.alfworld.pddl import Fact, PddlError, Query, parse_problem

REJECTED: Final = "Nothing happens."
_SINKS: Final = {
    "e733dcfa5154": frozenset({"sinktype", "sinkbasintype"}),
    "915e118f4f32": frozenset({"sinkbasintype"}),
}
"""Where things are cleaned, by domain: that of the official games and that of the package."""
_GRAMMARS: Final = frozenset({"8ccb165808cd", "67561ba4096c"})
_FLUENTS: Final = frozenset(
    ["atlocation", "holds", "inreceptacle", "isclean", "ishot", "iscool", "issliced", "istoggled", "opened"]
)
_KNIVES: Final = frozenset({"knifetype", "butterknifetype"})
_STATES: Final = ("isclean", "ishot", "iscool", "issliced", "istoggled")
_TASK: Final = re.compile(r'"rhs": "Your task is to: ([^"]*)"')
_HELP: Final = """\
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


class GameFileError(ValueError):
    """A game that cannot be played; names the file, what is wrong, and the mend."""

    def __init__(self, source: str | Path, problem: str) -> None:
        super().__init__(
            f"{source}: {problem}. Give a game.tw-pddl file of an ALFWorld release (json_2.1.1 or"
            " later); `trca data alfworld` fetches one"
        )


class Game:
    """One game, parsed; immutable, so any number of sessions in any threads share it.

    Things are known by their ids, such as ``mug_bar__plus_00_dot_80``, and shown by name, ``mug 1``.

    Attributes:
        task: The instruction, such as ``put a clean mug in shelf.``
        walkthrough: Commands that win, where the file gives them.
        names: Displayed name of each id.
    """

    def __init__(self, data: Mapping[str, Any], source: str | Path = "game") -> None:
        """Parses the contents of a game file.

        Args:
            data: ``pddl_domain``, ``grammar``, ``pddl_problem`` and perhaps ``walkthrough``.
            source: What to call the game in errors.

        Raises:
            GameFileError: When a part is missing, foreign or broken.
        """
        for key in ("pddl_domain", "grammar", "pddl_problem"):
            if not isinstance(data.get(key), str):
                raise GameFileError(source, f"it has no {key!r} text, so it is no ALFWorld game")
        self._sinks = _SINKS.get(_digest(_plain(data["pddl_domain"])), frozenset())
        if not self._sinks:
            raise GameFileError(source, "its PDDL domain is not ALFWorld's, so its rules are unknown")
        grammar: str = data["grammar"]
        tasks = _TASK.findall(grammar)
        if len(tasks) != 1 or _digest("".join(_TASK.sub("", grammar).split())) not in _GRAMMARS:
            raise GameFileError(source, "its text grammar is not ALFWorld's, so its text is unknown")
        self.task: str = tasks[0]
        if re.search(r"[][{}#|\\]", self.task):
            raise GameFileError(source, f"its task {self.task[:80]!r} holds markup")
        walkthrough = data.get("walkthrough") or ()
        self.walkthrough: tuple[str, ...] = tuple(str(command) for command in walkthrough)
        try:
            problem = parse_problem(data["pddl_problem"], _FLUENTS)
            self._read(problem.facts)
        except PddlError as error:
            raise GameFileError(source, f"its PDDL problem cannot be read: {error}") from None
        self.goal: tuple[Query, ...] = problem.goal

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Game:
        """Parses a game given as the contents of its file."""
        return cls(data)

    @classmethod
    def from_file(cls, path: str | Path) -> Game:
        """Parses a game file.

        Raises:
            GameFileError: When it is missing, not JSON, truncated, or no ALFWorld game.
        """
        try:
            data = json.loads(Path(path).read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise GameFileError(path, "there is no such file") from None
        except (OSError, UnicodeDecodeError) as error:
            raise GameFileError(path, f"it cannot be read ({error})") from None
        except (json.JSONDecodeError, RecursionError) as error:
            raise GameFileError(path, f"it is no JSON, or was cut off ({error})") from None
        if not isinstance(data, dict):
            raise GameFileError(path, "its JSON is no object, so it is no ALFWorld game")
        return cls(data, path)

    def _read(self, facts: Mapping[str, list[Fact]]) -> None:
        def pairs(name: str) -> list[tuple[str, str]]:
            return sorted((fact[1], fact[2]) for fact in facts.get(name, ()) if len(fact) == 3)

        def ones(name: str) -> frozenset[str]:
            return frozenset(fact[1] for fact in facts.get(name, ()) if len(fact) == 2)

        start = pairs("atlocation")
        if len(start) != 1:
            raise PddlError(f"the agent is at {len(start)} places")
        self.names = _display_names({name for group in facts.values() for f in group for name in f[1:]})
        self.agent, self.start = start[0]
        self.location = dict(pairs("receptacleatlocation"))
        if len(self.location) != len(facts.get("receptacleatlocation", ())):
            raise PddlError("a receptacle is at two places")
        self.receptacles_at = _grouped((place, r) for r, place in self.location.items())
        self.contents = _grouped((r, thing) for thing, r in pairs("inreceptacle"))
        self.inside = _grouped((outer, thing) for thing, outer in pairs("inreceptacleobject"))
        self.places = {o: frozenset(ls) for o, ls in _grouped(pairs("objectatlocation")).items()}
        self.object_type = dict(pairs("objecttype"))
        self.receptacle_type = dict(pairs("receptacletype"))
        self.can_contain = _shared(frozenset(pairs("cancontain")))
        self.opened = ones("opened")
        self.held = next((fact[2] for fact in facts.get("holds", ())), "")
        self.states = {state: ones(state) for state in _STATES}
        self.openable = ones("openable")
        self.pickupable = ones("pickupable")
        self.toggleable = ones("toggleable")
        self.sliceable = ones("sliceable")
        self.vessels = ones("isreceptacleobject")
        self.treatable = {
            "clean": ones("cleanable"),
            "heat": ones("heatable"),
            "cool": ones("coolable"),
        }
        self.treats = {
            r: verb
            for verb, kinds in (
                ("clean", self._sinks),
                ("heat", {"microwavetype"}),
                ("cool", {"fridgetype"}),
            )
            for r, kind in self.receptacle_type.items()
            if kind in kinds
        }
        self.goto = {f"go to {self.names[r]}": r for r in self.location}


class Session:
    """One play of a game.

    Attributes:
        game: The game.
        admissible_commands: What the world would carry out now, sorted.
        won: Whether the task is completed.
        done: Whether the game is over, which only success brings.
    """

    def __init__(self, game: Game) -> None:
        """Prepares a play; ``reset`` starts it."""
        self.game = game
        self.reset()

    def reset(self) -> str:
        """Starts over and returns the first observation."""
        game = self.game
        self._place = game.start
        self._held = game.held
        self._opened = set(game.opened)
        self._contents: dict[str, list[str] | tuple[str, ...]] = dict(game.contents)
        self._places = dict(game.places)
        self._states = {state: set(things) for state, things in game.states.items()}
        self._left: set[tuple[str, str]] = set()
        self.won = self.done = self._goal_holds()
        self._offer()
        room = self._look(_listing(game.names[r] for r in sorted(game.location)))
        self._last = f"-= Welcome to TextWorld, ALFRED! =-\n\n{room}\n\nYour task is to: {game.task}"
        return self._last

    def step(self, command: str) -> str:
        """Carries out a command and returns the observation; any string is legal.

        After success nothing changes any more, and the last observation is repeated.
        """
        if self.done:
            return self._last
        action = self._actions.get(command.strip())
        if action is None:
            self._last = REJECTED
            return REJECTED
        self._last = self._act(*action)
        self.won = self.done = self._goal_holds()
        self._offer()
        return self._last

    @property
    def facts(self) -> Iterator[Fact]:
        """The true facts that change or place things, with displayed names; hidden from agents."""
        game, names = self.game, self.game.names
        yield "atlocation", "agent", self._place
        for receptacle, place in game.location.items():
            yield "receptacleatlocation", names[receptacle], place
        for receptacle in game.openable:
            yield "openable", names[receptacle]
        for receptacle in self._opened:
            yield "opened", names[receptacle]
        for receptacle, things in self._contents.items():
            for thing in things:
                yield "inreceptacle", names[thing], names[receptacle]
        for state, members in self._states.items():
            for thing in members:
                yield state, names[thing]
        if self._held:
            yield "holds", "agent", names[self._held]

    def _offer(self) -> None:
        """Collects the actions whose preconditions hold, by command."""
        game, names, held = self.game, self.game.names, self._held
        here = game.receptacles_at.get(self._place, ())
        actions: dict[str, tuple[str, str, str]] = {
            command: ("goto", "", receptacle)
            for command, receptacle in game.goto.items()
            if receptacle not in here
        }
        for word in ("help", "inventory", "look"):
            actions[word] = (word, "", "")
        for receptacle in here:
            box = names[receptacle]
            actions[f"examine {box}"] = ("examine", "", receptacle)
            accessible = True
            if receptacle in game.openable:
                accessible = receptacle in self._opened
                verb = "close" if accessible else "open"
                actions[f"{verb} {box}"] = (verb, "", receptacle)
            for thing in self._contents.get(receptacle, ()):
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
                    if self._place in self._places.get(thing, ()):
                        command = f"slice {names[thing]} with {names[held]}"
                        actions[command] = ("slice", thing, held)
        self._actions = actions
        self.admissible_commands = sorted(actions)

    def _act(self, verb: str, thing: str, other: str) -> str:
        game, names = self.game, self.game.names
        match verb:
            case "goto":
                self._place = game.location[other]
                return f"You arrive at {names[other]}. {self._describe(other)}"
            case "open":
                self._opened.add(other)
                return f"You open the {names[other]}. {self._describe(other)}"
            case "close":
                self._opened.discard(other)
                return f"You close the {names[other]}."
            case "take":
                self._contents[other] = [t for t in self._contents[other] if t != thing]
                self._places[thing] = self._places.get(thing, frozenset()) - {self._place}
                self._left.add((thing, other))
                self._held = thing
                return f"You pick up the {names[thing]} from the {names[other]}."
            case "move":
                things = [t for t in self._contents.get(other, ()) if t != thing]
                insort(things, thing)
                self._contents[other] = things
                self._places[thing] = self._places.get(thing, frozenset()) | {self._place}
                self._left.discard((thing, other))
                self._held = ""
                return f"You move the {names[thing]} to the {names[other]}."
            case "heat":
                self._states["ishot"].add(thing)
                self._states["iscool"].discard(thing)
                return f"You heat the {names[thing]} using the {names[other]}."
            case "clean":
                self._states["isclean"].add(thing)
                return f"You clean the {names[thing]} using the {names[other]}."
            case "cool":
                self._states["iscool"].add(thing)
                self._states["ishot"].discard(thing)
                return f"You cool the {names[thing]} using the {names[other]}."
            case "use":
                self._states["istoggled"].add(thing)
                return f"You turn on the {names[thing]}."
            case "slice":
                self._states["issliced"].add(thing)
                return f"You sliced the {names[thing]} with the {names[other]}."
            case "examine":
                return self._inspect(thing) if thing else self._describe(other)
            case "inventory":
                if self._held:
                    return f"You are carrying: a {names[self._held]}."
                return "You are not carrying anything."
            case "look":
                return self._look()
            case _:
                return _HELP

    def _describe(self, receptacle: str) -> str:
        name = self.game.names[receptacle]
        things = (self.game.names[thing] for thing in self._contents.get(receptacle, ()))
        if receptacle not in self.game.openable:
            return f"On the {name}, you see {_listing(things)}."
        if receptacle in self._opened:
            return f"The {name} is open. In it, you see {_listing(things)}."
        return f"The {name} is closed."

    def _inspect(self, thing: str) -> str:
        game, name = self.game, self.game.names[thing]
        if thing in game.vessels:
            inside = _listing(game.names[t] for t in game.inside.get(thing, ()))
            return f"This is a normal {name}. In it, you see {inside}."
        states = {state for state, things in self._states.items() if thing in things}
        for needed, adjective in _ADJECTIVES:
            if states.issuperset(needed):
                return f"This is a {adjective}{name}."
        if thing in game.toggleable and "istoggled" in states:
            return f"This {name} is on."
        if thing in game.sliceable and "issliced" in states:
            return f"This is a sliced {name}."
        return f"There's nothing special about {name}."

    def _look(self, room: str = "nothing") -> str:
        """The surroundings; stock lists the ``room`` at the start and never again."""
        game, names = self.game, self.game.names
        here = game.receptacles_at.get(self._place, ())
        if not here:
            return (
                "You are in the middle of a room. Looking quickly around you, you see"
                f" {room}."
            )
        beside = _listing(
            names[thing]
            for thing, receptacle in sorted(self._left)
            if receptacle in here and self._place in self._places.get(thing, ())
        )
        facing = _joined([names[receptacle] for receptacle in here])
        return f"You are facing the {facing}. Next to it, you see {beside}."

    def _goal_holds(self) -> bool:
        return all(any(all(map(self._holds, case)) for case in q.cases) for q in self.game.goal)

    def _holds(self, fact: Fact) -> bool:
        match fact:
            case ("inreceptacle", thing, receptacle):
                return thing in self._contents.get(receptacle, ())
            case ("atlocation", _, place):
                return place == self._place
            case ("holds", _, thing):
                return thing == self._held
            case ("opened", receptacle):
                return receptacle in self._opened
            case (state, thing):
                return thing in self._states[state]
            case _:
                return False


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _plain(domain: str) -> str:
    """A PDDL text without what carries no meaning: comments, case, layout."""
    bare = re.sub(r";.*", "", domain).lower()
    return " ".join(re.sub(r"[()]", r" \g<0> ", bare).split())


def _grouped(pairs: Iterable[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for key, value in pairs:
        groups[key].append(value)
    return {key: tuple(sorted(values)) for key, values in groups.items()}


_TABLES: Final[dict[frozenset[tuple[str, str]], frozenset[tuple[str, str]]]] = {}


def _shared(table: frozenset[tuple[str, str]]) -> frozenset[tuple[str, str]]:
    """One copy of a table that nearly all games have in common."""
    return _TABLES.setdefault(table, table) if len(_TABLES) < 64 else table


def _display_names(ids: set[str]) -> dict[str, str]:
    """Names with numbers as ALFWorld gives them: the first id in order gets the highest number."""

    def kind(name: str) -> str:
        return name.split("_bar_", 1)[0] + ("basin" if "basin" in name else "")

    left = Counter(kind(name) for name in ids if "_bar_" in name)
    names = {}
    for name in sorted(ids):
        if "_bar_" in name:
            names[name] = f"{kind(name)} {left[kind(name)]}"
            left[kind(name)] -= 1
        else:
            names[name] = f"{name} "
    return names


def _joined(words: list[str]) -> str:
    if not words:
        return "nothing"
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])}, and {words[-1]}"


def _listing(names: Iterable[str]) -> str:
    return _joined([f"a {name}" for name in names])
