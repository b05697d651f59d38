"""Draws the pictures of the sweeps in docs/results_sweeps.md from the tables of that page.

    python benchmarks/page_pictures.py

The curves of these runs are not in the repository; the tables are. A picture shows the mean of each
row, held out and in training, with half of the 95% t interval over panels on each side.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from typing import Final

from trca.cli.show.figures import styles, symbol
from trca.runs.curve import INK, figure_in, success_axis

ROOT: Final = Path(__file__).parents[1]
SWEEPS: Final = {
    "lambda_panels": ("sweep-lambda", "lambda_"),
    "ablations": ("sweep-ablations", "ablation"),
    "anchors": ("sweep-anchors", "anchor"),
    "budgets": ("sweep-budgets", "budgets, budget_schedule"),
}
"""The picture and the swept settings of each sweep."""

PERCENT: Final = re.compile(r"(\d+\.\d)% ± (\d+\.\d)%")

Row = tuple[str, list[tuple[float, float]]]


def rows_of(page: str, sweep: str) -> list[Row]:
    """The rows of a sweep's table: the label, then mean and half-width, held out and in training.

    A cell may go on in the next line of the table.

    Args:
        page: The Markdown of the page.
        sweep: The sweep's name.
    """
    block = (
        page.split(f"$ trca sweep sweeps/{sweep}\n")[1].split("```")[0].split("$ trca report")[0]
    )
    lines = block.split("─\n")[1].splitlines()
    labels: list[list[str]] = []
    numbers: list[list[tuple[float, float]]] = []
    for line in lines:
        if cells := PERCENT.findall(line):
            columns = re.split(r" {2,}", line.strip())
            labels.append(list(takewhile(lambda column: not column.isdigit(), columns)))
            numbers.append([(float(mean) / 100, float(half) / 100) for mean, half in cells])
        elif line.strip():
            labels[-1][0] += f" {line.strip()}"
    return [(", ".join(label), cells) for label, cells in zip(labels, numbers, strict=True)]


def draw(rows: Sequence[Row], setting: str, sweep: str, path: Path) -> None:
    """Draws the rows of a sweep to a PNG: success held out, and in training."""
    looks = styles(name for name, _ in rows)
    with figure_in(path, (9.6, 4.2)) as figure:
        left, right = figure.subplots(1, 2, sharey=True)
        for axis, column, title in (
            (left, 1, "training, last 5 iterations"),
            (right, 0, "held out"),
        ):
            for place, ((_, numbers), (color, _)) in enumerate(zip(rows, looks, strict=True)):
                mean, half = numbers[column]
                axis.vlines(place, max(0, mean - half), min(1, mean + half), color=color, alpha=0.5)
                axis.plot(place, mean, "o", color=color, markersize=6)
                text = {"fontsize": 8.5, "va": "center", "color": INK}
                axis.text(place + 0.08, mean, f"{mean:.0%}", **text)
            labels = [textwrap.fill(name.replace("_", " "), 72 // len(rows)) for name, _ in rows]
            axis.set_xticks(range(len(rows)), labels, fontsize=8.5)
            axis.set_xlim(-0.5, len(rows) - 0.5)
            axis.set_xlabel(symbol(setting))
            axis.set_title(title, loc="left", fontsize=10)
            success_axis(axis)
        left.set_ylabel("success after 1,600 trajectories")
        figure.suptitle(f"{sweep}: trca/ALFWorld-v0", x=0.01, ha="left", fontweight="bold")
        note = (
            "panels (generator seeds) 41, 42, 43, 44; dots: mean of 4 runs; lines: 95% t interval"
        )
        figure.supxlabel(note, x=0.01, ha="left", fontsize=8.5)


def main() -> None:
    """Draws every sweep's picture."""
    page = (ROOT / "docs" / "results_sweeps.md").read_text("utf-8")
    for sweep, (picture, setting) in SWEEPS.items():
        draw(rows_of(page, sweep), setting, sweep, ROOT / "docs" / "images" / f"{picture}.png")


if __name__ == "__main__":
    main()
