"""The task types, and the rules and tables of ALFWorld 0.4.2 as files of this package.

``data/rules/`` contains the PDDL domain, the text grammar and the licence (MIT). ``tables.json``
contains the tables and goals of ``gen/constants.py`` and ``gen/goal_library.py``, which generate
games. The package ``alfworld`` is not needed; it would require TextWorld, spaCy and a C++ compiler.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
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
    """The task types without repeats, in the order of `TASK_TYPES`; a ValueError if unknown."""
    names = [task_types] if isinstance(task_types, str) else list(task_types)
    for name in names:
        if name not in GOALS:
            raise unknown("task type", name, TASK_TYPES)
    if not names:
        raise ValueError(f"task_types is empty: choose from {', '.join(TASK_TYPES)}")
    return tuple(name for name in TASK_TYPES if name in names)


_RULES: Final = resources.files(__package__) / "data" / "rules"
_TABLES: Final = json.loads((_RULES / "tables.json").read_text("utf-8"))
DOMAIN: Final = (_RULES / "alfred.pddl").read_text("utf-8")
"""The PDDL domain."""
GRAMMAR: Final = (_RULES / "alfred.twl2").read_text("utf-8")
"""The text grammar, with ``UNKNOWN GOAL`` in place of the instruction."""
GOAL_TEXTS: Final[Mapping[str, Any]] = {
    name: _TABLES["goals"][goal] for name, goal in GOALS.items()
}
"""Task type -> ``pddl``, the template of the goal section of a problem, and ``templates`` of the
instruction; with placeholders ``{obj}``, ``{recep}`` and ``{toggle}``."""
ACTION_OBJECTS: Final = {name: frozenset(each) for name, each in _TABLES["action_objects"].items()}
"""``Cleanable``, ``Heatable``, ``Coolable`` or ``Sliceable`` -> object types."""
OPENABLE: Final = frozenset[str](_TABLES["openable"])
"""The receptacle types with a door, a lid or a drawer."""
MOVABLE_RECEPTACLES: Final = frozenset[str](_TABLES["movable_receptacles"])
"""The object types that are also receptacles, such as a bowl."""
TYPE_NAMES: Final[Mapping[str, str]] = {
    name.lower(): name for name in (*_TABLES["objects"], *_TABLES["receptacle_objects"])
}
"""Type names in lower case, as in the text -> type names in the tables."""


@cache
def can_contain(receptacle: str) -> frozenset[str]:
    """The object types that a receptacle type may hold."""
    return frozenset(_TABLES["receptacle_objects"].get(receptacle, ()))
