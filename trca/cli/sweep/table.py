"""The results of a sweep: a table with one row per point, and a picture."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from trca.algorithms.settings.parameters import TextParameters
from trca.cli.show.figures import draw_comparison
from trca.cli.sweep.trials import Trial, by_point, joined
from trca.common.files import write_text
from trca.common.markdown import markdown_table
from trca.common.registry import short_name
from trca.runs.curve import panel_words
from trca.runs.folder import RunFolder
from trca.runs.success_tables import half_width, terminal_table

if TYPE_CHECKING:
    from rich.table import Table

MEASURES: Final = {
    "evaluation/success_rate": "success, held out",
    "success_rate": "success, training, last 5",
}
"""Metrics of the table, with the words of its columns."""

DIFFERENCE: Final = "minus first, held out, in points"
"""The column of the paired difference from the first row."""


def summarise(trials: Sequence[Trial], repeats: int) -> list[dict[str, Any]]:
    """One row per point: settings, and mean, interval and n of each metric over finished trials.

    The interval is over panels if the sweep has several panels, since seeds on one panel hide the
    variance between panels; else over seeds. Each row also has the difference from the first row,
    paired by panel and seed: pairs cancel the difficulty of the panels. Trials that were stopped
    early have a separate column and are in no mean. ``repeats`` is the number of trials of a point.
    """
    rows: list[dict[str, Any]] = []
    several = len({trial.panel for trial in trials}) > 1
    first: dict[str, dict[tuple[str, int], float]] = {}
    for each in by_point(trials, repeats).values():
        finished = [trial for trial in each if trial.state == "finished"]
        failed = sum(trial.state == "failed" for trial in each)
        row: dict[str, Any] = {"point": each[0].point, "words": each[0].words}
        row |= {"n": len(finished), "failed": failed}
        row["stopped"] = [
            {"seed": t.seed, "panel": t.panel, **(t.stopped or {}), "run": t.run.address}
            for t in each
            if t.state == "stopped"
        ]
        row["runs"] = [trial.run.address for trial in finished]
        for key in MEASURES:
            measured = {(t.panel, t.seed): measure(t.run.metrics(), key) for t in finished}
            values = {which: value for which, value in measured.items() if not np.isnan(value)}
            row[key] = _mean(values, several) | {"values": list(values.values())}
            if rows:
                paired = {w: values[w] - first[key][w] for w in values if w in first[key]}
                row[key]["difference"] = _mean(paired, several)
            else:
                first[key] = values
        rows.append(row)
    return rows


def _mean(values: Mapping[tuple[str, int], float], several: bool) -> dict[str, float | None]:
    """Mean and half of the 95% t interval over panels (the means of their seeds) or over seeds."""
    units: dict[Any, list[float]] = {}
    for (panel, seed), value in values.items():
        units.setdefault(panel if several else seed, []).append(value)
    means = [float(np.mean(each)) for each in units.values()]
    return {
        "mean": float(np.mean(means)) if means else None,
        "half_width": half_width(means) if len(means) > 1 else None,
    }


def write_table(rows: Sequence[Mapping[str, Any]], folder: RunFolder) -> None:
    """Writes ``sweep.md`` and ``sweep.json``; ± is half of the 95% t interval from `summarise`."""
    names, lines = _cells(rows)
    write_text(folder.path / "sweep.md", markdown_table(names, lines, text_columns=0))
    write_text(folder.path / "sweep.json", json.dumps(list(rows), indent=2) + "\n")


def as_rich(rows: Sequence[Mapping[str, Any]]) -> Table:
    """The rows as a table for the terminal."""
    from rich.text import Text

    table = terminal_table()
    names, lines = _cells(rows)
    for name in names:
        fold = name in rows[0]["point"] or name == "stopped early"
        of_point = [row["words"].get(name, "") for row in rows]
        table.add_column(
            Text(re.sub(r", |(?<=_)(?=.)", lambda cut: f"{cut[0].strip()}\n", name)),
            min_width=max(len(word) for text in of_point for word in ("", *text.split())),
            justify="left" if fold else "right",
            overflow="fold",
            no_wrap=not fold,
        )
    for line in lines:
        table.add_row(*map(Text, line))
    return table


def draw_sweep(trials: Sequence[Trial], settings: TextParameters, folder: RunFolder) -> bool:
    """Draws ``sweep.png`` from the finished trials; returns False if there is none.

    ``settings`` are those of a trial.
    """
    runs = curves(trials)
    if not runs:
        return False
    varied = {key for trial in trials for key in trial.point}
    kept = {k: v for k, v in settings.env_config.items() if f"env_config.{k}" not in varied}
    panel = panel_words(kept, settings.train_split, str(settings.evaluation_split))
    panels = list(dict.fromkeys(trial.panel for trial in trials))
    if len(panels) > 1:
        panel = f"{len(panels)} panels, {panels[0]} to {panels[-1]}"
    title = f"{folder.name}: {short_name(settings.env)}"
    draw_comparison(runs, folder.path / "sweep.png", title, panel)
    return True


def curves(trials: Sequence[Trial]) -> dict[str, list[list[dict[str, Any]]]]:
    """The metrics of the finished trials by point in words; equal points share one key."""
    runs: dict[str, list[list[dict[str, Any]]]] = {}
    for trial in trials:
        if trial.state == "finished":
            runs.setdefault(joined(trial.words), []).append(trial.run.metrics())
    return runs


def measure(rows: Sequence[Mapping[str, Any]], key: str) -> float:
    """A metric of a run: the last evaluation, or the mean of the last 5 training iterations."""
    values = [row[key] for row in rows if row.get(key) is not None]
    last = values[-1:] if key.startswith("evaluation/") else values[-5:]
    return float(np.mean(last)) if last else float("nan")


def _cells(rows: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """The names of the columns, and the cells of the rows."""
    held_out = [row["evaluation/success_rate"].get("difference") for row in rows]
    columns = {
        **{key: [row["words"][key] for row in rows] for key in rows[0]["point"]},
        "runs": [str(row["n"]) for row in rows],
        **{name: [_spread(row[key], "{:.1%}") for row in rows] for key, name in MEASURES.items()},
    }
    if len(rows) > 1:
        columns[DIFFERENCE] = [_spread(each, "{:+.1f}", "{:.1f}", 100) for each in held_out]
    if any(row["failed"] for row in rows):
        columns["failed"] = [str(row["failed"]) for row in rows]
    if any(row["stopped"] for row in rows):
        columns["stopped early"] = ["; ".join(map(reached, r["stopped"])) or "-" for r in rows]
    return list(columns), [list(cells) for cells in zip(*columns.values(), strict=True)]


def _spread(
    measure: Mapping[str, Any] | None, form: str, half_form: str = "", scale: float = 1.0
) -> str:
    """A mean and half of its interval, such as ``45.3% ± 2.1%``; ``-`` without a mean."""
    if measure is None or measure["mean"] is None:
        return "-"
    half = measure["half_width"]
    spread = "" if half is None else f" ± {(half_form or form).format(scale * half)}"
    return f"{form.format(scale * measure['mean'])}{spread}"


def reached(stop: Mapping[str, Any]) -> str:
    """Where an early stop happened, in words."""
    rollouts = "?" if stop["trajectories"] is None else f"{stop['trajectories']:,.0f}"
    return (
        f"iteration {stop['iteration']}, {rollouts} rollouts, {stop['metric']} {stop['value']:.3g}"
    )
