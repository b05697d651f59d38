"""The task types, and the rules and tables of ALFWorld 0.4.2 as files of this package.

``data/rules/`` contains the PDDL domain, the text grammar and the licence (MIT). ``tables.json``
contains the tables and goals of ``gen/constants.py`` and ``gen/goal_library.py``, which generate
games. The package ``alfworld`` is not needed; it would require TextWorld, spaCy and a C++ compiler.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import resources
from typing import Final

from pydantic import BaseModel

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


class Goal(BaseModel, frozen=True):
    """The goal of a task type.

    Attributes:
        pddl: Template of the goal section of a problem.
        templates: Templates of an instruction, with placeholders ``{obj}``, ``{recep}`` and
            ``{toggle}``.
    """

    pddl: str
    templates: tuple[str, ...]


class Tables(BaseModel, frozen=True):
    """The tables of ALFWorld.

    Attributes:
        objects: The object types.
        receptacle_objects: Receptacle type -> object types that it may hold.
        action_objects: ``Cleanable``, ``Heatable``, ``Coolable`` or ``Sliceable`` -> object types.
        openable: Receptacle types with a door, a lid or a drawer.
        movable_receptacles: Object types that are also receptacles, such as a bowl.
        goals: Goals by ALFWorld's name of the task type.
    """

    objects: tuple[str, ...]
    receptacle_objects: dict[str, frozenset[str]]
    action_objects: dict[str, frozenset[str]]
    openable: frozenset[str]
    movable_receptacles: frozenset[str]
    goals: dict[str, Goal]


_RULES: Final = resources.files(__package__) / "data" / "rules"
DOMAIN: Final = (_RULES / "alfred.pddl").read_text("utf-8")
"""The PDDL domain."""
GRAMMAR: Final = (_RULES / "alfred.twl2").read_text("utf-8")
"""The text grammar, with ``UNKNOWN GOAL`` in place of the instruction."""
TABLES: Final = Tables.model_validate_json((_RULES / "tables.json").read_text("utf-8"))
TYPE_NAMES: Final = {name.lower(): name for name in (*TABLES.objects, *TABLES.receptacle_objects)}
"""Type names in lower case, as in the text -> type names in the tables."""


def can_contain(receptacle: str) -> frozenset[str]:
    """The object types that a receptacle type may hold."""
    return TABLES.receptacle_objects.get(receptacle, frozenset())
