"""Progress of a training run: a live panel on a terminal, plain lines elsewhere."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from trca.cli.show.console import percent
from trca.cli.show.warnings import training_warnings
from trca.runs.curve import column, sparkline

_COLUMNS: Final = {
    "iteration": 9,
    "success": 7,
    "held out": 8,
    "readable": 8,
    "score": 5,
    "r^F": 6,
    "r^B": 6,
    "seconds": 7,
    "left": 8,
}
"""Columns of the plain lines with their widths; ``readable`` is ``parsed_ratio``."""
_HEAD: Final = "  ".join(f"{name:>{width}}" for name, width in _COLUMNS.items())


class Progress:
    """Shows the rows of metrics as they come, and warns of iterations that teach nothing.

    Use it as a context manager: ``with Progress(console, "quickstart", 25) as progress``.
    """

    def __init__(self, console: Console, title: str, iterations: int) -> None:
        self._console, self._title, self._iterations = console, title, iterations
        self._rows: list[Mapping[str, Any]] = []
        self._stage, self._since = "starting", time.monotonic()
        self._headed = False
        self._warned: set[str] = set()
        self._live: Live | None = None
        if console.is_terminal:
            self._live = Live(get_renderable=self._render, console=console, refresh_per_second=2)

    def __enter__(self) -> Progress:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._live is not None:
            self._live.stop()

    def stage(self, text: str) -> None:
        """Shows the current stage, and prints a line if the output is not a terminal."""
        self._stage, self._since = text, time.monotonic()
        if self._live is None:
            self._console.print(f"{text} ...")

    def earlier(self, rows: list[dict[str, Any]]) -> None:
        """Shows the rows of a run that is resumed; the next stage is an iteration."""
        self._rows = list(rows)
        self._next_iteration()
        if self._stage:
            self.stage(self._stage)  # an iteration may take minutes

    def show(self, row: Mapping[str, Any]) -> None:
        """Shows the row of one iteration, and each warning when it applies for the first time."""
        self._rows.append(row)
        self._next_iteration()
        if self._live is None:
            if not self._headed:
                self._console.print(_HEAD)
            self._headed = True
            self._console.print(self._line(row))
        for name, warning in training_warnings(self._rows).items():
            if name not in self._warned:
                self.warn(warning)
            self._warned.add(name)

    def warn(self, text: str) -> None:
        """Prints a warning. Any thread may call this method."""
        self._console.print(f"warning: {text}", markup=False, style="yellow")

    def _next_iteration(self) -> None:
        last = self._rows[-1]["iteration"] if self._rows else 0
        self._stage = f"iteration {last + 1}" if last < self._iterations else ""
        self._since = time.monotonic()

    def seconds_left(self) -> float:
        """Seconds to the last iteration at the pace of the last ten; NaN before the first."""
        recent = [row["seconds"] for row in self._rows[-10:]]
        if not recent:
            return math.nan
        left = self._iterations - self._rows[-1]["iteration"]
        return float(left * sum(recent) / len(recent))

    def _line(self, row: Mapping[str, Any]) -> str:
        percents = ("success_rate", "evaluation/success_rate", "parsed_ratio")
        rewards = ("foundational_reward", "breakthrough_reward")
        cells = (
            f"{row['iteration']}/{self._iterations}",
            *(percent(row.get(name)) for name in percents),
            _number(row.get("score"), 2),
            *(_number(row.get(name), 3) for name in rewards),
            f"{row['seconds']:.1f}",
            _clock(self.seconds_left()),
        )
        return "  ".join(f"{c:>{width}}" for c, width in zip(cells, _COLUMNS.values(), strict=True))

    def _render(self) -> RenderableType:
        done = self._rows[-1]["iteration"] if self._rows else 0
        head = Table.grid(padding=(0, 2), expand=True)
        head.add_column(no_wrap=True)
        head.add_column(ratio=1)
        head.add_column(justify="right", no_wrap=True)
        pace = f"{self._rows[-1]['seconds']:.1f} s an iteration" if self._rows else ""
        left = f"{_clock(self.seconds_left())} left" if self._rows else ""
        head.add_row(
            f"iteration {done}/{self._iterations}",
            ProgressBar(total=self._iterations, completed=done),
            "  ".join(part for part in (pace, left) if part),
        )
        parts: list[RenderableType] = [head]
        if self._rows:
            row, table = self._rows[-1], Table.grid(padding=(0, 2))
            table.add_column(style="dim")
            table.add_column(justify="right")
            table.add_column(style="cyan", no_wrap=True)
            training = column(self._rows, "success_rate")
            held_out = column(self._rows, "evaluation/success_rate")
            held_out = held_out[~np.isnan(held_out)]
            last = held_out[-1] if len(held_out) else None
            bars = Text(sparkline(held_out), style="magenta")
            table.add_row("success, training", percent(training[-1]), sparkline(training))
            table.add_row("success, held out", percent(last), bars)
            table.add_row("readable responses", percent(row.get("parsed_ratio")))
            table.add_row("score", _number(row.get("score"), 2))
            table.add_row("r^F foundational", _number(row.get("foundational_reward"), 3))
            table.add_row("r^B breakthrough", _number(row.get("breakthrough_reward"), 3))
            parts.append(table)
        if self._stage:
            waited = int(time.monotonic() - self._since)
            parts.append(Text(f"{self._stage} ... {waited} s", style="dim"))
        return Panel(Group(*parts), title=self._title, title_align="left", border_style="blue")


def _number(value: float | None, decimals: int) -> str:
    return "-" if value is None or math.isnan(value) else f"{value:z.{decimals}f}"


def _clock(seconds: float) -> str:
    if math.isnan(seconds):
        return "?"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
