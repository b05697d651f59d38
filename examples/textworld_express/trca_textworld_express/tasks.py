"""The tasks of CookingWorld: seeds of the benchmark's folds, and panels of further seeds."""

from __future__ import annotations

from typing import Final

FOLDS: Final = {"train": 0, "dev": 10_000, "test": 20_000}
"""The first of the benchmark's thousand seeds in each fold. A fold also selects the recipes."""
FOLD_SIZE: Final = 1000
PANEL_START: Final = 100_000
HALF: Final = 64
"""Number of tasks in each half of a panel."""


def task_ids(split: str, panel: int | None = None) -> tuple[str, ...]:
    """The task ids of a split, such as ``train/17``: fold and seed.

    Without a panel the splits are the benchmark's folds ``train``, ``dev`` and ``test``. A panel
    has further seeds with recipes of the fold ``train``, 64 in each of its splits ``train`` and
    ``valid``. Two panels share no task.

    Raises:
        ValueError: For an unknown split or a negative panel.
    """
    names = tuple(FOLDS) if panel is None else ("train", "valid")
    if split not in names:
        place = "" if panel is None else " of a panel"
        raise ValueError(f"unknown split {split!r}{place}: choose {', '.join(names)}")
    if panel is None:
        first, count, fold = FOLDS[split], FOLD_SIZE, split
    elif panel < 0:
        raise ValueError(f"panel is {panel}: give 0 or more")
    else:
        first, count, fold = PANEL_START + 2 * HALF * panel, HALF, "train"
        first += HALF * (split == "valid")
    return tuple(f"{fold}/{seed}" for seed in range(first, first + count))
