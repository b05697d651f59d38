"""Two evaluations of the same tasks, paired task by task."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from trca.analysis.paper_tables import refuse_unfinished
from trca.runs.folder import RunFolder
from trca.runs.reports import read_evaluation
from trca.runs.success_tables import ALL, over_tasks

SUCCESS = "success"


@dataclass(frozen=True)
class Paired:
    """How two policies differ on the tasks of one type, in one measure.

    Attributes:
        task_type: The type, or `ALL`.
        measure: ``success``, or another measure such as ``score``.
        tasks: Tasks that both have finished episodes of.
        first: Mean over these tasks of the first policy's mean over its episodes.
        second: The same of the second policy.
        difference: ``second - first``.
        low: Lower end of the 95% bootstrap interval of the difference, over tasks; NaN where all
            tasks have the same difference.
        high: Upper end.
        better: Tasks on which the second has the higher mean.
        worse: Tasks on which it has the lower one.
        p: Of the exact sign test, two-sided: how likely so uneven a count of better and worse is
            where neither policy is ahead; 1 without any.
    """

    task_type: str
    measure: str
    tasks: int
    first: float
    second: float
    difference: float
    low: float
    high: float
    better: int
    worse: int
    p: float


def read_report(name: str) -> dict[str, Any]:
    """Reads the JSON file of an evaluation.

    Args:
        name: Its path, with or without ``.json``; or a folder, for the ``evaluation.json`` that a
            run ends with, else for the only one in it.

    Raises:
        ValueError: When it is no such file; names those in the folder. When the run has not ended.
    """
    path = Path(name).expanduser()
    if path.is_dir():
        at_the_end = path / "evaluation.json"
        found = [at_the_end] if at_the_end.is_file() else sorted(path.glob("evaluation_*.json"))
        if len(found) != 1:
            there = "\n  ".join(str(each) for each in found) or "none; trca evaluate writes one"
            raise ValueError(f"{path}: name one of its evaluations:\n  {there}")
        if found == [at_the_end] and (path / "config.yaml").is_file():
            refuse_unfinished(RunFolder(path))
        [path] = found
    elif not path.is_file():
        path = path.with_name(f"{path.name}.json")
    try:
        data = read_evaluation(path)
    except FileNotFoundError:
        raise ValueError(
            f"no run and no evaluation {name!r}: trca train and trca evaluate write them"
        ) from None
    return {**data, "path": str(path)}


def pair(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[Paired]:
    """Pairs two evaluations by task: all tasks first, then each type, in every measure of both.

    A task that either lacks for a technical reason is left out of the pairs.

    Args:
        first: An evaluation, as `read_report` gives it.
        second: Another one, of the same panel.

    Raises:
        ValueError: When the panels differ, and when no task is in both.
    """
    panels = [each["panel"] for each in (first, second)]
    if panels[0] != panels[1]:
        told = " and ".join(f"{p['environment']} {p['split']} ({p['hash']})" for p in panels)
        raise ValueError(
            f"the evaluations are of two panels, {told}: evaluate both on the same split and tasks"
        )
    values = [_by_task(each["outcomes"]) for each in (first, second)]
    types = {o["task_id"]: o["task_type"] for o in first["outcomes"] if o["won"] is not None}
    both = [task for task in values[0].get(SUCCESS, {}) if task in values[1].get(SUCCESS, {})]
    if not both:
        raise ValueError("no task has finished episodes in both evaluations")
    kinds = sorted({types[task] for task in both})
    paired = []
    for measure in (name for name in values[0] if name in values[1]):
        for kind in [ALL, *(kinds if len(kinds) > 1 else [])]:
            tasks = [task for task in both if kind in (ALL, types[task])]
            tasks = [t for t in tasks if t in values[0][measure] and t in values[1][measure]]
            if tasks:
                columns = [[side[measure][task] for task in tasks] for side in values]
                paired.append(_paired(kind, measure, *columns))
    return paired


def _paired(
    task_type: str, measure: str, first: Sequence[float], second: Sequence[float]
) -> Paired:
    from scipy.stats import binomtest

    differences = [b - a for a, b in zip(first, second, strict=True)]
    better, worse = (sum(sign * d > 0 for d in differences) for sign in (1, -1))
    low, high = over_tasks(differences)
    return Paired(
        task_type=task_type,
        measure=measure,
        tasks=len(differences),
        first=fmean(first),
        second=fmean(second),
        difference=fmean(differences),
        low=low,
        high=high,
        better=better,
        worse=worse,
        p=float(binomtest(better, better + worse).pvalue) if better + worse else 1.0,
    )


def _by_task(outcomes: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """The mean of each measure over the finished episodes of each task."""
    found: dict[str, dict[str, list[float]]] = {SUCCESS: {}}
    for outcome in outcomes:
        if outcome["won"] is None:
            continue
        for name, value in ({SUCCESS: float(outcome["won"])} | outcome["measures"]).items():
            if value is not None and math.isfinite(value):
                found.setdefault(name, {}).setdefault(outcome["task_id"], []).append(value)
    return {
        name: {task: fmean(values) for task, values in tasks.items()}
        for name, tasks in found.items()
    }
