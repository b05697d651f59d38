"""Reads ALFWorld game files: what is in the room, what is asked, and how it is all called.

Every official game carries the same PDDL domain, and the same text grammar but for the task line.
So neither is interpreted: they are recognised, and a game with others is refused by name. The rules
are those of `engine.Simulator`, the sentences those of `text`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from trca.envs.alfworld.pages import display_names
from trca.envs.alfworld.pddl import PddlError, Problem, Query, parse_problem

_SINKS: Final = {
    "e733dcfa5154": frozenset({"sinktype", "sinkbasintype"}),
    "915e118f4f32": frozenset({"sinkbasintype"}),
}
"""Digests of the domains: of the official games, of the package. They differ in where to clean."""
_GRAMMARS: Final = frozenset({"9734ef10dc2d", "fced1eb3d9fc"})
"""Digests of the grammars without the task: of the official games, of the package."""
_TASK: Final = re.compile(r'"rhs": "Your task is to: ([^"]*)"')
_MARKUP: Final = re.compile(r"[][{}#|\\]")
STATES: Final = ("isclean", "ishot", "iscool", "issliced", "istoggled")
"""Predicates that actions make true of an object."""
_SIGNATURES: Final[dict[str, tuple[str, ...]]] = {
    "atlocation": ("agent", "location"),
    "receptacleatlocation": ("receptacle", "location"),
    "objectatlocation": ("object", "location"),
    "inreceptacle": ("object", "receptacle"),
    "inreceptacleobject": ("object", "object"),
    "receptacletype": ("receptacle", "rtype"),
    "objecttype": ("object", "otype"),
    "cancontain": ("rtype", "otype"),
    "openable": ("receptacle",),
    "opened": ("receptacle",),
    **dict.fromkeys(("isreceptacleobject", "pickupable", "toggleable", "sliceable"), ("object",)),
    **dict.fromkeys(("cleanable", "heatable", "coolable", *STATES), ("object",)),
}
"""The facts that a game may start with, and the types of their arguments."""
_CHANGING: Final[dict[str, tuple[str, ...]]] = {
    "holds": ("agent", "object"),
    **{name: _SIGNATURES[name] for name in ("atlocation", "inreceptacle", "opened", *STATES)},
}
"""The facts that change and that a goal may ask for."""


class GameFileError(ValueError):
    """A game that cannot be played; names the file, what is wrong, and the mend."""

    def __init__(self, source: str | Path, problem: str) -> None:
        super().__init__(str(source), problem)

    def __str__(self) -> str:
        source, problem = self.args
        return (
            f"{source}: {problem}. Give a game.tw-pddl file of an ALFWorld release (json_2.1.1 or"
            " later); `trca data alfworld` fetches one"
        )


class Game:
    """One game; immutable, so any number of simulators in any threads share it.

    Things are known by their ids, such as ``mug_bar__plus_00_dot_80``, and shown by name, such as
    ``mug 1``.

    Attributes:
        task: The instruction, such as ``put a clean mug in shelf.``
        walkthrough: Actions that win, where the file gives them.
        goal: What must hold for success; all blocks of it.
        names: Name of each id.
        start: The location of the agent at the start.
        location: Location of each receptacle.
        receptacles_at: The receptacles of each location, sorted.
        contents: What lies in each receptacle at the start, sorted.
        inside: What lies in each object that holds others, sorted.
        places: The locations where each object is found at the start.
        object_type: Type of each object.
        receptacle_type: Type of each receptacle.
        can_contain: Pairs of a receptacle type and an object type that it may hold.
        opened: Receptacles open at the start.
        states: Predicate of `STATES` -> objects of which it holds at the start.
        openable: Receptacles that can be opened.
        pickupable: Objects that can be taken.
        toggleable: Objects with a switch.
        sliceable: Objects that can be sliced.
        vessels: Objects that can hold others.
        treatable: ``clean``, ``heat`` or ``cool`` -> objects it can be done to.
        treats: What each appliance does: ``clean``, ``heat`` or ``cool``.
        goto: Action -> the receptacle it leads to.
    """

    def __init__(self, data: Mapping[str, Any], source: str | Path = "game") -> None:
        """Reads the contents of a game file.

        Args:
            data: ``pddl_domain``, ``grammar``, ``pddl_problem`` and perhaps ``walkthrough``.
            source: What to call the game in errors.

        Raises:
            GameFileError: When a part is missing, foreign or broken.
        """
        for key in ("pddl_domain", "grammar", "pddl_problem"):
            if not isinstance(data.get(key), str):
                raise GameFileError(source, f"it has no {key!r} text, so it is no ALFWorld game")
        walkthrough = data.get("walkthrough") or []
        if not isinstance(walkthrough, list | tuple):
            raise GameFileError(source, "its 'walkthrough' is no list of actions")
        self.walkthrough: tuple[str, ...] = tuple(str(action) for action in walkthrough)
        sinks = _SINKS.get(_digest(_plain(data["pddl_domain"])))
        if sinks is None:
            raise GameFileError(source, "its PDDL domain is not ALFWorld's: its rules are unknown")
        self.task: str = _task(data["grammar"], source)
        try:
            problem = parse_problem(data["pddl_problem"], _SIGNATURES, _CHANGING)
            self._read(problem, sinks)
        except PddlError as error:
            reason = str(error)[:500]
            raise GameFileError(source, f"its PDDL problem cannot be played: {reason}") from None
        except RecursionError:
            raise GameFileError(source, "its PDDL problem is nested too deep") from None

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Game:
        """Reads a game given as the contents of its file.

        Raises:
            GameFileError: When a part is missing, foreign or broken.
        """
        return cls(data)

    @classmethod
    def from_file(cls, path: str | Path) -> Game:
        """Reads a game file.

        Raises:
            GameFileError: When it is missing, not JSON, truncated, or no ALFWorld game.
        """
        try:
            data = json.loads(Path(path).read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise GameFileError(path, "there is no such file") from None
        except (json.JSONDecodeError, RecursionError) as error:
            raise GameFileError(path, f"it is no JSON, or was cut off ({error})") from None
        except (OSError, ValueError) as error:
            raise GameFileError(path, f"it cannot be read ({error})") from None
        if not isinstance(data, dict):
            raise GameFileError(path, "its JSON is no object, so it is no ALFWorld game")
        return cls(data, path)

    def _read(self, problem: Problem, sinks: frozenset[str]) -> None:
        facts = problem.facts

        def pairs(name: str) -> list[tuple[str, str]]:
            return [(fact[1], fact[2]) for fact in facts.get(name, ())]

        def ones(name: str) -> frozenset[str]:
            return frozenset(fact[1] for fact in facts.get(name, ()))

        def only(name: str) -> dict[str, str]:
            found = dict(pairs(name))
            if len(found) != len(facts.get(name, ())):
                raise PddlError(f"something has two of {name!r}")
            return found

        start = pairs("atlocation")
        if len(start) != 1:
            raise PddlError(f"the agent is at {len(start)} places at the start, not at one")
        self.goal: tuple[Query, ...] = problem.goal
        self.names = display_names(
            {name for group in facts.values() for f in group for name in f[1:]}
        )
        self.start = start[0][1]
        self.location = only("receptacleatlocation")
        self.receptacles_at = _grouped((place, r) for r, place in self.location.items())
        self.contents = _grouped((r, thing) for thing, r in pairs("inreceptacle"))
        self.inside = _grouped(
            (outer, thing) for thing, outer in pairs("inreceptacleobject") if thing != outer
        )
        self.places = {o: frozenset(at) for o, at in _grouped(pairs("objectatlocation")).items()}
        self.object_type = only("objecttype")
        self.receptacle_type = only("receptacletype")
        self.can_contain = _shared(frozenset(pairs("cancontain")))
        self.opened = ones("opened")
        self.states = {state: ones(state) for state in STATES}
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
        verbs = {**dict.fromkeys(sinks, "clean"), "microwavetype": "heat", "fridgetype": "cool"}
        self.treats = {r: verbs[t] for r, t in self.receptacle_type.items() if t in verbs}
        self.goto = {f"go to {self.names[r]}": r for r in self.location}


def _task(grammar: str, source: str | Path) -> str:
    """The instruction in the grammar, once the rest of it is recognised."""
    tasks: list[str] = _TASK.findall(grammar)
    if len(tasks) != 1 or _digest(_TASK.sub("", grammar)) not in _GRAMMARS:
        if "put {o} in/on {r}" in grammar:
            raise GameFileError(source, "it has the text grammar of ALFWorld before 0.4.0")
        raise GameFileError(source, "its text grammar is not ALFWorld's: its text is unknown")
    if _MARKUP.search(tasks[0]):
        raise GameFileError(source, f"its task {tasks[0][:80]!r} holds markup")
    return tasks[0]


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


@lru_cache(maxsize=64)
def _shared(table: frozenset[tuple[str, str]]) -> frozenset[tuple[str, str]]:
    """One copy of a table that nearly all games have in common."""
    return table
