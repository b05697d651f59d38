"""ALFWorld's own rules and tables, read as files: importing its package would load TextWorld."""

from __future__ import annotations

import importlib.util
import runpy
from functools import cache
from pathlib import Path
from typing import Any


@cache
def _folder() -> Path:
    spec = importlib.util.find_spec("alfworld")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("alfworld is not installed: pip install alfworld==0.4.2")
    return Path(spec.submodule_search_locations[0])


@cache
def domain() -> str:
    """The PDDL domain ``alfred.pddl``."""
    return (_folder() / "data" / "alfred.pddl").read_text()


@cache
def grammar() -> str:
    """The text grammar ``alfred.twl2``, with ``UNKNOWN GOAL`` where the instruction goes."""
    return (_folder() / "data" / "alfred.twl2").read_text()


@cache
def _constants() -> dict[str, Any]:
    return runpy.run_path(str(_folder() / "gen" / "constants.py"))


@cache
def _goals() -> dict[str, dict[str, Any]]:
    goals: dict[str, dict[str, Any]] = runpy.run_path(str(_folder() / "gen" / "goal_library.py"))[
        "gdict"
    ]
    return goals


def goal_pddl(goal: str, *, target: str, destination: str, lamp: str) -> str:
    """The goal section of a problem (it also closes the problem), for one of `tasks.GOALS`."""
    text: str = _goals()[goal]["pddl"]
    return text.replace("#", "-").format(obj=target, recep=destination, toggle=lamp)


def instruction_templates(goal: str) -> tuple[str, ...]:
    """The wordings of an instruction, with ``{obj}``, ``{recep}`` and ``{toggle}`` to fill in."""
    return tuple(_goals()[goal]["templates"])


@cache
def can_contain(receptacle: str) -> frozenset[str]:
    """The object types that a receptacle type may hold."""
    return frozenset(_constants()["VAL_RECEPTACLE_OBJECTS"].get(receptacle, ()))


@cache
def allows(action: str) -> frozenset[str]:
    """The object types that are ``Cleanable``, ``Heatable``, ``Coolable`` or ``Sliceable``."""
    return frozenset(_constants()["VAL_ACTION_OBJECTS"][action])


@cache
def openable() -> frozenset[str]:
    """The receptacle types that have a door, a lid or a drawer to open."""
    return frozenset(_constants()["OPENABLE_CLASS_SET"])


@cache
def movable_receptacles() -> frozenset[str]:
    """The object types that are receptacles themselves, such as a bowl."""
    return frozenset(_constants()["MOVABLE_RECEPTACLES_SET"])


@cache
def type_names() -> dict[str, str]:
    """Lower-case type names, as the text has them -> the names in the tables."""
    tables = _constants()
    return {name.lower(): name for name in (*tables["OBJECTS"], *tables["VAL_RECEPTACLE_OBJECTS"])}
