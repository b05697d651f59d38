"""Paired comparison of two evaluations of the same tasks."""

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
from trca.runs.success_tables import ALL, named, over_tasks

SUCCESS = "success"


@dataclass(frozen=True)
class Paired:
    """The difference between two policies on the tasks of a type, in one metric.

    Attributes:
        task_type: The type, or `ALL`.
        measure: The metric: ``success``, or a further metric such as ``score``.
        tasks: Number of tasks with finished episodes of both policies.
        first: The first policy's mean over tasks of the mean over episodes; ``second`` likewise.
        difference: ``second - first``.
        low: Lower end of the 95% bootstrap interval of the difference, over tasks; NaN if all
            tasks have the same difference.
        better: Number of tasks with a higher mean of the second policy; ``worse`` likewise.
        p: p-value of the exact two-sided sign test on ``better`` and ``worse``; 1 if both are 0.
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
    """Reads the JSON file of an evaluation, by its path with or without ``.json``.

    In a folder the file is ``evaluation.json``, the final evaluation of a run, or the only
    ``evaluation_*.json``.

    Raises:
        ValueError: If the file does not exist or is not an evaluation, the folder has several
            evaluations, or the run is not finished.
    """
    path = Path(name).expanduser()
    if path.is_dir():
        final = path / "evaluation.json"
        files = [final] if final.is_file() else sorted(path.glob("evaluation_*.json"))
        if len(files) != 1:
            listed = "\n  ".join(map(str, files)) or "no evaluation; trca evaluate writes one"
            raise ValueError(f"{path}: name one of its evaluations:\n  {listed}")
        if files == [final] and (path / "config.yaml").is_file():
            refuse_unfinished(RunFolder(path))
        [path] = files
    elif not path.is_file():
        path = path.with_name(f"{path.name}.json")
    try:
        data = read_evaluation(path)
    except FileNotFoundError:
        raise ValueError(
            f"no run and no evaluation {name!r}: trca train and trca evaluate write evaluations"
        ) from None
    return {**data, "path": str(path)}


def trajectories(report: Mapping[str, Any]) -> int | None:
    """Training trajectories before an evaluation in the folder of a run; `None` elsewhere."""
    iteration = report.get("iteration", report.get("selection", {}).get("iteration"))
    rows = RunFolder(Path(report["path"]).parent).metrics() if iteration else []
    return next((int(r["trajectories"]) for r in rows if r["iteration"] == iteration), None)


def pair(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[Paired]:
    """Pairs two evaluations by task, in every common metric: all tasks first, then each type.

    A task without a finished episode in one of the evaluations is left out; see `read_report`.

    Raises:
        ValueError: If the panels differ, or no task has finished episodes in both evaluations.
    """
    from scipy.stats import binomtest

    panels = [each["panel"] for each in (first, second)]
    if panels[0] != panels[1]:
        names = " and ".join(f"{p['environment']} {p['split']} ({p['hash']})" for p in panels)
        raise ValueError(
            f"the evaluations have different panels, {names}: evaluate both on the same split and"
            " tasks"
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
            if not tasks:
                continue
            before, after = ([side[measure][task] for task in tasks] for side in values)
            differences = [b - a for a, b in zip(before, after, strict=True)]
            better, worse = (sum(sign * d > 0 for d in differences) for sign in (1, -1))
            low, high = over_tasks(differences)
            paired.append(
                Paired(
                    task_type=kind,
                    measure=measure,
                    tasks=len(differences),
                    first=fmean(before),
                    second=fmean(after),
                    difference=fmean(differences),
                    low=low,
                    high=high,
                    better=better,
                    worse=worse,
                    p=float(binomtest(better, better + worse).pvalue) if better + worse else 1.0,
                )
            )
    return paired


def _by_task(outcomes: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """Returns the mean of each metric over the finished episodes of each task."""
    values: dict[str, dict[str, list[float]]] = {SUCCESS: {}}
    for outcome in outcomes:
        if outcome["won"] is None:
            continue
        for name, value in ({SUCCESS: float(outcome["won"])} | named(outcome["measures"])).items():
            if value is not None and math.isfinite(value):
                values.setdefault(name, {}).setdefault(outcome["task_id"], []).append(value)
    return {
        name: {task: fmean(numbers) for task, numbers in tasks.items()}
        for name, tasks in values.items()
    }
