"""The six task types, with the paper's names and ALFWorld's names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

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
