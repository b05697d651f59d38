"""The learning curve as a picture: success above, rubric rewards below, over trajectories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

WINDOW: Final = 5
"""Iterations in the moving mean of training success."""

INK: Final = "#22313f"
TRAIN: Final = "#2a6f97"
HELD_OUT: Final = "#d1495b"
EXECUTION: Final = "#4f772d"
FOUNDATION: Final = "#b5838d"

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
    """A metric over the rows, NaN where a row has none."""
    return np.array([np.nan if row.get(key) is None else row[key] for row in rows], dtype=float)


def moving_mean(values: NDArray[np.float64], window: int = WINDOW) -> NDArray[np.float64]:
    """The mean of each value and the ``window - 1`` before it; NaN counts for nothing."""
    return np.array(
        [_mean(values[max(0, end - window) : end]) for end in range(1, len(values) + 1)],
        dtype=float,
    )


def draw_curve(rows: Sequence[Mapping[str, Any]], path: Path, title: str) -> None:
    """Draws a run's metrics to a PNG.

    Args:
        rows: One mapping an iteration: ``trajectories``, ``success_rate``, and where there are any
            ``evaluation/success_rate``, ``foundational_reward``, ``breakthrough_reward``.
        path: The file, written whole or not at all.
        title: What stands above.
    """
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    x = column(rows, "trajectories")
    success = column(rows, "success_rate")
    held_out = column(rows, "evaluation/success_rate")
    with rc_context(STYLE):
        figure = Figure(figsize=(7.2, 5.6), layout="constrained")
        FigureCanvasAgg(figure)
        upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
        upper.plot(x, success, ".", color=TRAIN, alpha=0.35, label="training, an iteration")
        mean_label = f"training, mean of {WINDOW}"
        upper.plot(x, moving_mean(success), color=TRAIN, linewidth=2.2, label=mean_label)
        if not np.isnan(held_out).all():
            known = ~np.isnan(held_out)
            upper.plot(
                x[known],
                held_out[known],
                "o-",
                color=HELD_OUT,
                linewidth=1.2,
                markersize=6,
                label="held out",
            )
        upper.set_ylim(-0.02, 1.02)
        upper.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        upper.set_ylabel("success")
        upper.set_title(title, loc="left", fontweight="bold")
        upper.legend(loc="upper left")

        for key, label, color in (
            ("breakthrough_reward", "$r^B$ breakthrough", EXECUTION),
            ("foundational_reward", "$r^F$ foundational", FOUNDATION),
        ):
            lower.plot(x, column(rows, key), color=color, linewidth=1.6, label=label)
        lower.set_ylabel("rubric reward a step")
        lower.set_xlabel("trajectories")
        lower.legend(loc="best")
        draft = path.with_name(f".{path.name}.part")
        figure.savefig(draft, format="png")
    draft.replace(path)


def sparkline(values: NDArray[np.float64], width: int = 40) -> str:
    """Values from 0 to 1 as a row of bars, squeezed into ``width`` characters."""
    bars = "▁▂▃▄▅▆▇█"
    parts = np.array_split(values, min(width, len(values))) if len(values) else []
    means = [_mean(part) for part in parts]
    return "".join(
        " " if np.isnan(mean) else bars[min(len(bars) - 1, int(mean * len(bars)))] for mean in means
    )


def _mean(values: NDArray[np.float64]) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")
