"""The learning curve of a run over trajectories."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

TITLE_WIDTH: Final = 54
"""Characters in a line of the title of a curve."""
NOTE_WIDTH: Final = 108
"""Characters in a line of the note below the title of a curve."""
WINDOW: Final = 5
"""Iterations in the trailing mean of training success."""

INK: Final = "#22313f"
TRAIN: Final = "#2a6f97"
HELD_OUT: Final = "#d1495b"
EXECUTION: Final = "#4f772d"
FOUNDATION: Final = "#e09f3e"

STYLE: Final[dict[Any, Any]] = {
    "font.size": 10,
    "axes.edgecolor": "#9aa5b1",
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e6eaee",
    "legend.frameon": False,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "figure.dpi": 130,
}


def column(rows: Sequence[Mapping[str, Any]], key: str) -> NDArray[np.float64]:
    """Returns a metric of all rows, NaN for a row without the metric."""
    return np.array([np.nan if row.get(key) is None else row[key] for row in rows], dtype=float)


def moving_mean(values: NDArray[np.float64], window: int = WINDOW) -> NDArray[np.float64]:
    """Returns the mean of each value and the ``window - 1`` values before it, ignoring NaN."""
    return np.array([_mean(values[max(0, k + 1 - window) : k + 1]) for k in range(len(values))])


def draw_curve(rows: Sequence[Mapping[str, Any]], path: Path, title: str, panel: str = "") -> None:
    """Draws a run's metrics to a PNG: success above, rubric rewards below.

    ``rows`` has a mapping per iteration: ``trajectories``, ``success_rate``, and optionally
    ``evaluation/success_rate`` with its interval ``evaluation/success_low`` and
    ``evaluation/success_high``, ``evaluation/n``, ``foundational_reward``, ``breakthrough_reward``.
    The title names run, algorithm and environment; ``panel`` describes the tasks below the title.
    """
    with figure_in(path, (7.2, 5.8)) as figure:
        plot_curve(figure, rows, title, panel)


def plot_curve(figure: Any, rows: Sequence[Mapping[str, Any]], title: str, panel: str = "") -> None:
    """Plots the curve of `draw_curve` into a figure.

    The start policy samples iteration 1, so the success of iteration 1 is labelled as the start.
    """
    x = column(rows, "trajectories")
    success = column(rows, "success_rate")
    measured = [row for row in rows if row.get("evaluation/success_rate") is not None]
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
    if not np.isnan(success).all():
        label = f"training, mean of the last {WINDOW} iterations"
        upper.plot(x, success, ".", color=TRAIN, alpha=0.35, label="training, one iteration")
        upper.plot(x, moving_mean(success), color=TRAIN, linewidth=2.2, label=label)
    if len(success) and not np.isnan(success[0]):
        label = f"training at the start, {success[0]:.0%}"
        upper.axhline(success[0], color=INK, linewidth=1, linestyle=":", label=label)
    if len(x):
        upper.set_xlim(left=0, right=max(x[-1], 1) * 1.04)
    words = [panel, *([f"{x[0]:.0f} rollouts per iteration"] if len(x) else [])]
    if measured:
        held_out = column(measured, "evaluation/success_rate")
        low, high = (column(measured, f"evaluation/success_{end}") for end in ("low", "high"))
        errors = np.nan_to_num(np.maximum([held_out - low, high - held_out], 0.0))
        label = "held out" if np.isnan(low).all() else "held out, 95% interval"
        style = {"fmt": "o-", "color": HELD_OUT, "linewidth": 1.2, "capsize": 3, "label": label}
        upper.errorbar(column(measured, "trajectories"), held_out, errors, **style)
        if (n := measured[-1].get("evaluation/n")) is not None:
            words.append(f"{n:.0f} rollouts held out")
    success_axis(upper)
    upper.set_ylabel("success")
    note = textwrap.wrap("; ".join(filter(None, words)), NOTE_WIDTH)
    heading = [*textwrap.wrap(title, TITLE_WIDTH), *("" for _ in note)]
    upper.set_title("\n".join(heading), loc="left", fontweight="bold")
    upper.text(0, 1.03, "\n".join(note), transform=upper.transAxes, fontsize=8.5)

    for key, label, color in (
        ("breakthrough_reward", "$r^B$ breakthrough", EXECUTION),
        ("foundational_reward", "$r^F$ foundational", FOUNDATION),
    ):
        marker = "." if len(rows) == 1 else ""
        values = column(rows, key)
        lower.plot(x, values, color=color, linewidth=1.6, marker=marker, label=label)
    lower.set_ylabel("rubric reward per step")
    lower.set_xlabel("trajectories")
    lower.legend(loc="best")
    figure.legend(*upper.get_legend_handles_labels(), loc="outside lower left", ncols=2)


def panel_words(env_config: Mapping[str, Any], train_split: str, evaluation_split: str) -> str:
    """Describes the tasks of a run for a figure: ``games=small; trained on train, ...``."""
    silent = ("max_steps", "library", "split")
    given = ", ".join(f"{key}={value}" for key, value in env_config.items() if key not in silent)
    return "; ".join(
        filter(None, [given, f"trained on {train_split}, held out {evaluation_split}"])
    )


@contextmanager
def figure_in(
    path: Path, size: tuple[float, float], formats: Sequence[str] = ("png",)
) -> Iterator[Any]:
    """Yields a figure, and writes it at the end of the block, replacing each file atomically."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with rc_context(STYLE):
        figure = Figure(figsize=size, layout="constrained")
        FigureCanvasAgg(figure)
        yield figure
        for kind in formats:
            file = path.with_suffix(f".{kind}")
            draft = file.with_name(f".{file.name}.part")
            figure.savefig(draft, format=kind)
            draft.replace(file)


def success_axis(axis: Any) -> None:
    """Formats the vertical axis for success rates."""
    axis.set_ylim(-0.02, 1.02)
    axis.yaxis.set_major_formatter(percent)


def percent(share: float, _place: int = 0) -> str:
    """Returns the label of a tick: 5%, or 2.5%."""
    return f"{100 * share:.4g}%"


def sparkline(values: NDArray[np.float64], width: int = 40) -> str:
    """Returns values from 0 to 1 as a line of at most ``width`` bars."""
    bars = "▁▂▃▄▅▆▇█"
    parts = np.array_split(values, min(width, len(values))) if len(values) else []
    means = [_mean(part) for part in parts]
    return "".join(
        " " if np.isnan(mean) else bars[min(len(bars) - 1, int(mean * len(bars)))] for mean in means
    )


def _mean(values: NDArray[np.float64]) -> float:
    numbers = values[~np.isnan(values)]
    return float(numbers.mean()) if len(numbers) else float("nan")
