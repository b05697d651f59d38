"""ALFWorld's own rules and tables, of version 0.4.2, as files of this package.

``data/rules/`` has its PDDL domain and its text grammar, in ``tables.json`` the tables and goals of
``gen/constants.py`` and ``gen/goal_library.py`` that games are made with, and its licence (MIT).
The package ``alfworld`` is not needed: it asks for TextWorld, spaCy and a C++ compiler.
"""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import Any


def _read(name: str) -> str:
    return (resources.files(__package__) / "data" / "rules" / name).read_text("utf-8")


@cache
def domain() -> str:
    """The PDDL domain ``alfred.pddl``."""
    return _read("alfred.pddl")


@cache
def grammar() -> str:
    """The text grammar ``alfred.twl2``, with ``UNKNOWN GOAL`` where the instruction goes."""
    return _read("alfred.twl2")


@cache
def _tables() -> dict[str, Any]:
    tables: dict[str, Any] = json.loads(_read("tables.json"))
    return tables


def goal_pddl(goal: str, *, target: str, destination: str, lamp: str) -> str:
    """The goal section of a problem (it also closes the problem), for one of `tasks.GOALS`."""
    text: str = _tables()["goals"][goal]["pddl"]
    return text.replace("#", "-").format(obj=target, recep=destination, toggle=lamp)


def instruction_templates(goal: str) -> tuple[str, ...]:
    """The wordings of an instruction, with ``{obj}``, ``{recep}`` and ``{toggle}`` to fill in."""
    return tuple(_tables()["goals"][goal]["templates"])


@cache
def can_contain(receptacle: str) -> frozenset[str]:
    """The object types that a receptacle type may hold."""
    return frozenset(_tables()["receptacle_objects"].get(receptacle, ()))


@cache
def allows(action: str) -> frozenset[str]:
    """The object types that are ``Cleanable``, ``Heatable``, ``Coolable`` or ``Sliceable``."""
    return frozenset(_tables()["action_objects"][action])


@cache
def openable() -> frozenset[str]:
    """The receptacle types that have a door, a lid or a drawer to open."""
    return frozenset(_tables()["openable"])


@cache
def movable_receptacles() -> frozenset[str]:
    """The object types that are receptacles themselves, such as a bowl."""
    return frozenset(_tables()["movable_receptacles"])


@cache
def type_names() -> dict[str, str]:
    """Lower-case type names, as the text has them -> the names in the tables."""
    tables = _tables()
    return {name.lower(): name for name in (*tables["objects"], *tables["receptacle_objects"])}
