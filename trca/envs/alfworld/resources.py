"""The task types, and the rules and tables of ALFWorld 0.4.2 as files of this package.

``data/rules/`` contains the PDDL domain, the text grammar and the licence (MIT). ``tables.json``
contains the tables and goals of ``gen/constants.py`` and ``gen/goal_library.py``, which generate
games. The package ``alfworld`` is not needed; it would require TextWorld, spaCy and a C++ compiler.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from importlib import resources
from typing import Any, Final

from trca.common.names import unknown

GOALS: Final = {
    "Pick": "pick_and_place_simple",
    "Look": "look_at_obj_in_light",
    "Clean": "pick_clean_then_place_in_recep",
    "Heat": "pick_heat_then_place_in_recep",
    "Cool": "pick_cool_then_place_in_recep",
    "Pick2": "pick_two_obj_and_place",
}
"""Name of a task type in the paper -> name in ALFWorld, which is also a prefix of the game's
folder."""

TASK_TYPES: Final = tuple(GOALS)
SPLITS: Final = ("train", "valid_seen", "valid_unseen", "valid_train")


def check_task_types(task_types: Iterable[str]) -> tuple[str, ...]:
    """The task types without repeats, in the order of `TASK_TYPES`.

    Raises:
        ValueError: If a type is unknown or the list is empty.
    """
    names = [task_types] if isinstance(task_types, str) else list(task_types)
    for name in names:
        if name not in GOALS:
            raise unknown("task type", name, TASK_TYPES)
    if not names:
        raise ValueError(f"task_types is empty: choose from {', '.join(TASK_TYPES)}")
    return tuple(name for name in TASK_TYPES if name in names)


def _read(name: str) -> str:
    return (resources.files(__package__) / "data" / "rules" / name).read_text("utf-8")


@cache
def domain() -> str:
    """The PDDL domain ``alfred.pddl``."""
    return _read("alfred.pddl")


@cache
def grammar() -> str:
    """The text grammar ``alfred.twl2``, with ``UNKNOWN GOAL`` in place of the instruction."""
    return _read("alfred.twl2")


@cache
def _tables() -> dict[str, Any]:
    tables: dict[str, Any] = json.loads(_read("tables.json"))
    return tables


def goal_pddl(goal: str, *, target: str, destination: str, lamp: str) -> str:
    """The goal section of a problem, with the closing parenthesis of the problem."""
    text: str = _tables()["goals"][goal]["pddl"]
    return text.replace("#", "-").format(obj=target, recep=destination, toggle=lamp)


def instruction_templates(goal: str) -> tuple[str, ...]:
    """The templates of an instruction, with placeholders ``{obj}``, ``{recep}``, ``{toggle}``."""
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
    """The receptacle types with a door, a lid or a drawer."""
    return frozenset(_tables()["openable"])


@cache
def movable_receptacles() -> frozenset[str]:
    """The object types that are also receptacles, such as a bowl."""
    return frozenset(_tables()["movable_receptacles"])


@cache
def type_names() -> dict[str, str]:
    """Type names in lower case, as in the text -> type names in the tables."""
    tables = _tables()
    return {name.lower(): name for name in (*tables["objects"], *tables["receptacle_objects"])}
