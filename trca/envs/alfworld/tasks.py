"""The six task types, under the paper's names and under ALFWorld's own."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Final

GOALS: Final = {
    "Pick": "pick_and_place_simple",
    "Look": "look_at_obj_in_light",
    "Clean": "pick_clean_then_place_in_recep",
    "Heat": "pick_heat_then_place_in_recep",
    "Cool": "pick_cool_then_place_in_recep",
    "Pick2": "pick_two_obj_and_place",
}
"""The paper's name of each task type -> ALFWorld's (which also opens the folder of each game)."""

TASK_TYPES: Final = tuple(GOALS)
SPLITS: Final = ("train", "valid_seen", "valid_unseen", "valid_train")


def unknown(what: str, name: object, known: Iterable[str]) -> ValueError:
    """An error that names the thing, the value, the nearest match and what is known."""
    names = list(known)
    near = difflib.get_close_matches(str(name), names, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else "."
    shown = ", ".join(names[:8]) + (f", ... ({len(names)} in all)" if len(names) > 8 else "")
    return ValueError(f"unknown {what} {str(name)[:200]!r}{hint} Known: {shown}")


def check_task_types(task_types: Iterable[str]) -> tuple[str, ...]:
    """The task types in the order of `TASK_TYPES`, each once.

    Raises:
        ValueError: When one is unknown or there is none.
    """
    names = [task_types] if isinstance(task_types, str) else list(task_types)
    for name in names:
        if name not in GOALS:
            raise unknown("task type", name, TASK_TYPES)
    if not names:
        raise ValueError(f"task_types is empty: choose from {', '.join(TASK_TYPES)}")
    return tuple(name for name in TASK_TYPES if name in names)
