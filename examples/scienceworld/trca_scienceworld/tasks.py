"""The task types of ScienceWorld 1.2.3 and the variations of each split."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

SPLITS: Final = ("train", "dev", "test")
VARIATIONS: Final = {
    "boil": 30,
    "change-the-state-of-matter-of": 30,
    "chemistry-mix": 32,
    "chemistry-mix-paint-secondary-color": 36,
    "chemistry-mix-paint-tertiary-color": 36,
    "find-animal": 300,
    "find-living-thing": 300,
    "find-non-living-thing": 300,
    "find-plant": 300,
    "freeze": 30,
    "grow-fruit": 126,
    "grow-plant": 126,
    "identify-life-stages-1": 14,
    "identify-life-stages-2": 10,
    "inclined-plane-determine-angle": 168,
    "inclined-plane-friction-named-surfaces": 1386,
    "inclined-plane-friction-unnamed-surfaces": 162,
    "lifespan-longest-lived": 125,
    "lifespan-longest-lived-then-shortest-lived": 125,
    "lifespan-shortest-lived": 125,
    "measure-melting-point-known-substance": 436,
    "measure-melting-point-unknown-substance": 300,
    "melt": 30,
    "mendelian-genetics-known-plant": 120,
    "mendelian-genetics-unknown-plant": 480,
    "power-component": 20,
    "power-component-renewable-vs-nonrenewable-energy": 20,
    "test-conductivity": 900,
    "test-conductivity-of-unknown-substances": 600,
    "use-thermometer": 540,
}
"""Number of variations of each task type."""


def variations(task_type: str, split: str) -> range:
    """The variations of a task type in a split, by the benchmark's rule.

    The first half of the variations is for train, the third quarter for dev, the rest for test.

    Raises:
        ValueError: For an unknown task type or split.
    """
    if task_type not in VARIATIONS:
        raise ValueError(f"unknown task type {task_type!r}: choose of {', '.join(VARIATIONS)}")
    if split not in SPLITS:
        raise ValueError(f"unknown split {split!r}: choose {', '.join(SPLITS)}")
    count, quarter = VARIATIONS[task_type], VARIATIONS[task_type] // 4
    first, last = {
        "train": (0, 2 * quarter),
        "dev": (2 * quarter, 3 * quarter),
        "test": (3 * quarter, count),
    }[split]
    return range(first, last)


def task_ids(types: Sequence[str], split: str, per_type: int | None = None) -> tuple[str, ...]:
    """The task ids of a split, such as ``boil/3``.

    The order is one variation of each type, then the next variation of each type, so that the head
    of the panel has all types.

    Args:
        types: The task types.
        split: The split.
        per_type: Largest number of variations of a type; None for all.
    """
    columns = [[f"{name}/{n}" for n in variations(name, split)[:per_type]] for name in types]
    longest = max(map(len, columns), default=0)
    return tuple(column[row] for row in range(longest) for column in columns if row < len(column))
