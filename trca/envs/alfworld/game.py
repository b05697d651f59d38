"""Reads ALFWorld game files: the room, the goal, the instruction, and the names of things.

All official games have the same PDDL domain and, except for the instruction, the same text grammar.
Therefore this module interprets neither. It recognises both by their hashes and refuses games with
other rules or other text. `simulator.Simulator` has the rules, `pages` the sentences.
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

from trca.common.shared import Shared
from trca.envs.alfworld.pages import display_names
from trca.envs.alfworld.pddl import Fact, PddlError, parse_problem

_SINKS: Final = {
    "e733dcfa5154": frozenset({"sinktype", "sinkbasintype"}),
    "915e118f4f32": frozenset({"sinkbasintype"}),
}
"""Digests of the domains: of the official games and of this package. The domains differ in the
receptacle types for cleaning."""
_GRAMMARS: Final = frozenset({"9734ef10dc2d", "fced1eb3d9fc"})
"""Digests of the grammars without the instruction: of the official games and of this package."""
_TASK: Final = re.compile(r'"rhs": "Your task is to: ([^"]*)"')
_MARKUP: Final = re.compile(r"[][{}#|\\]")
STATES: Final = ("isclean", "ishot", "iscool", "issliced", "istoggled")
"""Predicates of objects that actions make true."""
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
"""The predicates of the initial state and the types of their arguments."""
_CHANGING: Final[dict[str, tuple[str, ...]]] = {
    "holds": ("agent", "object"),
    **{name: _SIGNATURES[name] for name in ("atlocation", "inreceptacle", "opened", *STATES)},
}
"""The predicates that actions change and that a goal may contain."""


class GameFileError(ValueError):
    """A game cannot be played. The message names the file, the problem and the fix."""

    def __init__(self, source: str | Path, problem: str) -> None:
        super().__init__(str(source), problem)

    def __str__(self) -> str:
        source, problem = self.args
        return (
            f"{source}: {problem}. Give a game.tw-pddl file of an ALFWorld release (json_2.1.1 or"
            " later); `trca data alfworld` fetches one"
        )


class Game(Shared):
    """One game. A game is immutable, so all simulators and threads may share it.

    Things have ids, such as ``mug_bar__plus_00_dot_80``, and displayed names, such as ``mug 1``.

    Attributes:
        task: The instruction, such as ``put a clean mug in shelf.``
        walkthrough: Actions that solve the task; empty if the file has none.
        goal: The conditions for success: in each block, all facts of a case must hold.
        names: Displayed name of each id.
        location: Location of each receptacle.
        receptacles_at: Receptacles at each location, sorted.
        contents: Objects in each receptacle at the start, sorted.
        inside: Objects in each object that holds objects, sorted.
        places: Locations of each object at the start.
        can_contain: Pairs of a receptacle type and an object type that it may hold.
        states: Predicate of `STATES` -> objects with this state at the start.
        vessels: Objects that can hold objects.
        treatable: ``clean``, ``heat`` or ``cool`` -> objects that permit this action.
        treats: The action of each appliance: ``clean``, ``heat`` or ``cool``.
        goto: Action -> its target receptacle.
    """

    def __init__(self, data: Mapping[str, Any], source: str | Path = "game") -> None:
        """Reads the contents of a game file; ``source`` names the game in errors."""
        for key in ("pddl_domain", "grammar", "pddl_problem"):
            if not isinstance(data.get(key), str):
                raise GameFileError(source, f"not an ALFWorld game: it has no text {key!r}")
        walkthrough = data.get("walkthrough") or []
        if not isinstance(walkthrough, list | tuple):
            raise GameFileError(source, "its 'walkthrough' is not a list of actions")
        self.walkthrough: tuple[str, ...] = tuple(str(action) for action in walkthrough)
        domain = re.sub(r";.*", "", data["pddl_domain"]).lower()
        domain = " ".join(re.sub(r"[()]", r" \g<0> ", domain).split())
        sinks = _SINKS.get(_digest(domain))
        if sinks is None:
            raise GameFileError(source, "unknown rules: its PDDL domain is not ALFWorld's")
        self.task: str = _task(data["grammar"], source)
        try:
            facts, self.goal = parse_problem(data["pddl_problem"], _SIGNATURES, _CHANGING)
            self._read(facts, sinks)
        except PddlError as error:
            reason = str(error)[:500]
            raise GameFileError(source, f"its PDDL problem cannot be played: {reason}") from None
        except RecursionError:
            raise GameFileError(source, "its PDDL problem is nested too deep") from None

    @classmethod
    def from_file(cls, path: str | Path) -> Game:
        """Reads a game file."""
        try:
            data = json.loads(Path(path).read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise GameFileError(path, "there is no such file") from None
        except (json.JSONDecodeError, RecursionError) as error:
            raise GameFileError(path, f"it is not JSON or is truncated ({error})") from None
        except (OSError, ValueError) as error:
            raise GameFileError(path, f"it cannot be read ({error})") from None
        if not isinstance(data, dict):
            raise GameFileError(path, "not an ALFWorld game: its JSON is not an object")
        return cls(data, path)

    def _read(self, facts: Mapping[str, list[Fact]], sinks: frozenset[str]) -> None:
        def pairs(name: str) -> list[tuple[str, str]]:
            return [(fact[1], fact[2]) for fact in facts.get(name, ())]

        def members(name: str) -> frozenset[str]:
            return frozenset(fact[1] for fact in facts.get(name, ()))

        def unique(name: str) -> dict[str, str]:
            values = dict(pairs(name))
            if len(values) != len(facts.get(name, ())):
                raise PddlError(f"something has two of {name!r}")
            return values

        start = pairs("atlocation")
        if len(start) != 1:
            raise PddlError(f"the agent is at {len(start)} places at the start, not at one")
        self.names = display_names(
            {name for group in facts.values() for f in group for name in f[1:]}
        )
        self.start = start[0][1]
        self.location = unique("receptacleatlocation")
        self.receptacles_at = _grouped((place, r) for r, place in self.location.items())
        self.contents = _grouped((r, thing) for thing, r in pairs("inreceptacle"))
        self.inside = _grouped(
            (outer, thing) for thing, outer in pairs("inreceptacleobject") if thing != outer
        )
        self.places = {o: frozenset(at) for o, at in _grouped(pairs("objectatlocation")).items()}
        self.object_type = unique("objecttype")
        self.receptacle_type = unique("receptacletype")
        self.can_contain = _shared(frozenset(pairs("cancontain")))
        self.opened = members("opened")
        self.states = {state: members(state) for state in STATES}
        self.openable = members("openable")
        self.pickupable = members("pickupable")
        self.toggleable = members("toggleable")
        self.sliceable = members("sliceable")
        self.vessels = members("isreceptacleobject")
        self.treatable = {
            "clean": members("cleanable"),
            "heat": members("heatable"),
            "cool": members("coolable"),
        }
        verbs = {**dict.fromkeys(sinks, "clean"), "microwavetype": "heat", "fridgetype": "cool"}
        self.treats = {r: verbs[t] for r, t in self.receptacle_type.items() if t in verbs}
        self.goto = {f"go to {self.names[r]}": r for r in self.location}


def _task(grammar: str, source: str | Path) -> str:
    """The instruction in the grammar, after a check of the remaining grammar."""
    instructions: list[str] = _TASK.findall(grammar)
    if len(instructions) != 1 or _digest(_TASK.sub("", grammar)) not in _GRAMMARS:
        if "put {o} in/on {r}" in grammar:
            raise GameFileError(source, "it has the text grammar of ALFWorld before 0.4.0")
        raise GameFileError(source, "unknown text: its text grammar is not ALFWorld's")
    if _MARKUP.search(instructions[0]):
        raise GameFileError(source, f"its task {instructions[0][:80]!r} contains markup")
    return instructions[0]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _grouped(pairs: Iterable[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for key, value in pairs:
        groups[key].append(value)
    return {key: tuple(sorted(values)) for key, values in groups.items()}


@lru_cache(maxsize=64)
def _shared(table: frozenset[tuple[str, str]]) -> frozenset[tuple[str, str]]:
    return table
