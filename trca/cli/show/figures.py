"""Pictures of several runs: comparisons, budgets, task types, sweeps and diagnoses."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trca.cli.show.figure_labels import (
    coinciding,
    label_lines,
    label_names,
    symbol,
    wrap_label,
)
from trca.runs.curve import (
    EXECUTION,
    FOUNDATION,
    HELD_OUT,
    INK,
    TRAIN,
    WINDOW,
    column,
    figure_in,
    moving_mean,
    success_axis,
)

SERIES: Final = (
    *(HELD_OUT, TRAIN, "#7a8794", EXECUTION, FOUNDATION, "#6d597a"),
    *("#2a9d8f", "#7f4f24"),
)
"""Colours of the runs of a comparison, in order."""

METHODS: Final = {
    "TRCA": HELD_OUT,
    "GRPO": TRAIN,
    "GiGPO": EXECUTION,
    "BEACON": FOUNDATION,
    "ShapedReturnToGo": "#7a8794",
    "HiPER": "#6d597a",
}
"""Methods that have the same colour in every picture."""

LINES: Final = ("-", "--", ":")
"""Styles of lines, where there are more of them than colours."""

BUDGET_SHARES: Final = (0.3, 0.6, 1.0)
"""Shares of a run's trajectories: the paper's 1.92K and 3.84K of 6.40K."""


NOTE_WIDTH: Final = 150
"""Characters in a line of the note below a comparison."""


def draw_comparison(
    runs: Mapping[str, Sequence[Sequence[Mapping[str, Any]]]],
    path: Path,
    title: str,
    panel: str,
    formats: Sequence[str] = ("png",),
) -> None:
    """Draws success of several settings: the mean over runs as a line, and the range at its end.

    Args:
        runs: The rows of metrics of each run, by the name of its setting.
        path: The file, replaced at once.
        title: The title: what is compared, and the environment.
        panel: The tasks, for the line below the panels.
        formats: Files to write, such as ``svg``, each beside the path.
    """
    height = 4.2 + 0.2 * len(runs) * _long(label_names(list(runs))[1])
    with figure_in(path, (9.6, height), formats) as figure:
        plot_comparison(figure, runs, title, panel)


def draw_budgets(
    runs: Mapping[str, Sequence[Sequence[Mapping[str, Any]]]], path: Path, title: str
) -> None:
    """Draws training success at three budgets of trajectories to PNG and SVG.

    The budgets are 30%, 60% and 100% of the shortest run, as the paper's 1.92K, 3.84K and 6.40K.

    Args:
        runs: The rows of metrics of each run, by the name of its setting.
        path: The file, replaced at once.
        title: The title.
    """
    with figure_in(path, (7.6, 4.2), ("png", "svg")) as figure:
        axis = figure.subplots()
        shortest = min(
            (rows for each in runs.values() for rows in each), key=lambda r: r[-1]["trajectories"]
        )
        ends = [max(1, round(share * len(shortest))) - 1 for share in BUDGET_SHARES]
        budgets = [shortest[end]["trajectories"] for end in ends]
        width = 0.8 / len(runs)
        looks, (key, labels) = _looks(runs), label_names(list(runs))
        for number, each in enumerate(runs.values()):
            values = np.array([[_success_at(rows, budget) for budget in budgets] for rows in each])
            mean = values.mean(axis=0)
            place = np.arange(3) + width * (number - (len(runs) - 1) / 2)
            errors = np.abs(np.stack([values.min(axis=0), values.max(axis=0)]) - mean)
            color, before = looks[number]
            hatch = ("", "//", "..")[before % 3]
            style = {"color": color, "hatch": hatch, "edgecolor": "white", "label": labels[number]}
            axis.bar(place, mean, 0.9 * width, yerr=errors, ecolor=INK, capsize=2, **style)
            for x, value in zip(place, mean, strict=True):
                if round(value, 2) == 0:  # a bar of no height
                    axis.text(x, 0.005, "0%", ha="center", va="bottom", color=color, size=8)
        axis.set_xticks(range(3), [f"{budget:,}" for budget in budgets])
        axis.set_xlabel("trajectories")
        axis.set_ylabel(f"training success, last {WINDOW} iterations")
        success_axis(axis)
        axis.grid(visible=False, axis="x")
        axis.legend(loc="lower left", bbox_to_anchor=(-0.01, 1.0), ncols=4, title=key or None)
        figure.suptitle(title, x=0.01, ha="left", fontweight="bold")
        words = f"bars: mean, whiskers: lowest to highest of {_count(runs.values())}"
        figure.supxlabel(words, x=0.01, ha="left", size=8.5)


def draw_types(shares: Mapping[str, Mapping[str, Sequence[float]]], path: Path, title: str) -> None:
    """Draws held-out success by type of task to PNG and SVG.

    Args:
        shares: By the name of a setting and the type: the success of each run.
        path: The file, replaced at once.
        title: The title.
    """
    types = list(dict.fromkeys(kind for each in shares.values() for kind in each))
    with figure_in(path, (7.6, 1.6 + 0.5 * len(types)), ("png", "svg")) as figure:
        axis = figure.subplots()
        step = 0.6 / max(1, len(shares))
        looks, (key, labels) = _looks(shares), label_names(list(shares))
        for number, each in enumerate(shares.values()):
            color, before = looks[number]
            marker, label = ("o", "D", "^")[before % 3], labels[number]
            for kind, values in each.items():
                place = types.index(kind) + step * (number - (len(shares) - 1) / 2)
                axis.hlines(place, min(values), max(values), color=color, alpha=0.4)
                axis.plot(np.mean(values), place, marker, color=color, label=label)
                label = "_nolegend_"
        axis.set_yticks(range(len(types)), types)
        axis.invert_yaxis()
        axis.set_xlim(-0.02, 1.02)
        axis.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        axis.set_xlabel("success, held out")
        axis.legend(loc="lower left", bbox_to_anchor=(-0.01, 1.0), ncols=4, title=key or None)
        figure.suptitle(title, x=0.01, ha="left", fontweight="bold")
        count = _count(values for each in shares.values() for values in each.values())
        words = f"dots: mean, lines: lowest to highest of {count}"
        figure.supxlabel(words, x=0.01, ha="left", size=8.5)


def draw_radar(shares: Mapping[str, Mapping[str, Sequence[float]]], path: Path, title: str) -> None:
    """Draws the profile of each setting over types of tasks to PNG and SVG, as the paper's figure.

    Args:
        shares: By the name of a setting and the type: the success of each run. Settings that lack a
            type are left out.
        path: The file, replaced at once.
        title: The title.
    """
    from matplotlib.ticker import MaxNLocator

    types = list(dict.fromkeys(kind for each in shares.values() for kind in each))
    whole = {name: each for name, each in shares.items() if each.keys() >= set(types)}
    angles = np.linspace(0, 2 * np.pi, len(types), endpoint=False)
    with figure_in(path, (7.6, 5.2), ("png", "svg")) as figure:
        axis = figure.subplots(subplot_kw={"projection": "polar"})
        axis.set_theta_offset(np.pi / 2)
        axis.set_theta_direction(-1)
        key, labels = label_names(list(whole))
        for each, label, (color, before) in zip(whole.values(), labels, _looks(whole), strict=True):
            means = [np.mean(each[kind]) for kind in types]
            axis.plot(
                [*angles, angles[0]],
                [*means, means[0]],
                color=color,
                linestyle=LINES[before % len(LINES)],
                marker="o",
                markersize=3.5,
                label=label,
            )
        axis.set_xticks(angles, types)
        axis.tick_params(axis="x", pad=10)
        rings = MaxNLocator(4).tick_values(0, max(axis.get_ylim()[1], 0.01))
        axis.set_yticks(rings[1:])
        axis.set_ylim(0, rings[-1])
        axis.set_rlabel_position(3)
        axis.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        axis.legend(loc="center left", bbox_to_anchor=(1.08, 0.5), title=key or None)
        figure.suptitle(title, x=0.01, ha="left", fontweight="bold")
        count = _count(values for each in whole.values() for values in each.values())
        figure.supxlabel(f"success, held out; mean of {count}", x=0.01, ha="left", size=8.5)


def draw_setting(
    shares: Mapping[str, Mapping[float, Sequence[float]]], setting: str, path: Path, title: str
) -> None:
    """Draws held-out success over the values of a setting to PNG and SVG, a line a type of task.

    Args:
        shares: By type and value: the success of each run. The last type is that of all tasks; it
            is drawn bold, with the range over runs.
        setting: The setting's name.
        path: The file, replaced at once.
        title: The title.
    """
    *types, whole = shares
    with figure_in(path, (7.6, 4.2), ("png", "svg")) as figure:
        axis = figure.subplots()
        ends, colors = [], []
        for number, kind in enumerate([whole, *types]):
            points = sorted(shares[kind].items())
            values = [value for value, _ in points]
            color = INK if kind == whole else SERIES[(number - 1) % len(SERIES)]
            line = LINES[(number - 1) // len(SERIES) % len(LINES)]
            style = {"linewidth": 2.6} if kind == whole else {"linewidth": 1.3, "linestyle": line}
            means = [float(np.mean(each)) for _, each in points]
            axis.plot(values, means, marker="o", color=color, markersize=4, **style)
            ends.append(means[-1])
            colors.append(color)
            if kind == whole:
                lowest, highest = zip(*((min(each), max(each)) for _, each in points), strict=True)
                axis.fill_between(values, lowest, highest, color=tinted(INK, 0.1), zorder=0)
        axis.set_xticks(sorted({value for each in shares.values() for value in each}))
        axis.set_xlabel(symbol(setting))
        axis.set_ylabel("success, held out")
        success_axis(axis)
        label_lines(axis, ends, [whole, *types], colors, 9)
        figure.suptitle(title, x=0.01, ha="left", fontweight="bold")
        count = _count(shares[whole].values())
        words = f"lines: mean of {count}; band: their lowest to highest, of {whole}"
        figure.supxlabel(words, x=0.01, ha="left", size=8.5)


def plot_comparison(
    figure: Any,
    runs: Mapping[str, Sequence[Sequence[Mapping[str, Any]]]],
    title: str,
    panel: str,
) -> None:
    """Plots what `draw_comparison` draws."""
    left, right = figure.subplots(1, 2, sharey=True)
    key, labels = label_names(list(runs))
    named = [f"{key} {label}" if key == "λ" else label for label in labels]
    numbers = [str(number) for number in range(1, len(runs) + 1)] if _long(labels) else None
    notes = [panel, f"mean of {_count(runs.values())}"]
    notes += ["whiskers: lowest to highest"] if max(map(len, runs.values())) > 1 else []
    panels = []
    for axis, metric, name in (
        (left, "success_rate", f"training, mean of the last {WINDOW} iterations"),
        (right, "evaluation/success_rate", "held out"),
    ):
        success_axis(axis)
        axis.set_title(name, loc="left", fontsize=10)
        panels.append({setting: _together(each, metric) for setting, each in runs.items()})
    training, held_out = panels
    for axis, curves in ((left, training), (right, held_out)):
        if curves and all(len(x) == 1 for x, _ in curves.values()):
            _plot_points(axis, curves, numbers or labels, key)
        else:
            _plot_lines(axis, curves)
    highest = max(left.dataLim.y1, right.dataLim.y1)
    if 0 < highest < 0.5:
        left.set_ylim(-0.02 * highest, 1.25 * highest)
        notes.append(f"the axis ends at {1.25 * highest:.0%}")
    left.set_ylabel("success")
    names = dict(zip(runs, numbers or named, strict=True))
    colors = dict(zip(runs, (color for color, _ in _looks(runs)), strict=True))
    trained = [name for name, (x, _) in training.items() if len(x)]
    others = [name for name, (x, _) in held_out.items() if len(x) and name not in trained]
    for axis, curves, labelled in ((left, training, trained), (right, held_out, others)):
        if any(len(x) > 1 for x, _ in curves.values()):
            ends = [float(curves[name][1][:, -1].mean()) for name in labelled]
            shown = [names[name] for name in labelled], [colors[name] for name in labelled]
            label_lines(axis, ends, *shown, 8.5)
    low, high = left.get_ylim()
    words = dict(zip(runs, numbers or labels, strict=True))
    for place, curves in (("", training), ("held out, ", held_out)):
        means = {
            words[name]: values.mean(axis=0) / (high - low)
            for name, (x, values) in curves.items()
            if len(x)
        }
        notes += [f"{place}{note}" for note in coinciding(means)]
    figure.suptitle(title, x=0.01, ha="left", fontweight="bold")
    lines = textwrap.wrap("; ".join(filter(None, notes)), NOTE_WIDTH)
    lines += [f"{number}: {label}" for number, label in zip(numbers or (), labels, strict=False)]
    figure.supxlabel("\n".join(lines), x=0.01, ha="left", fontsize=8.5)


def _plot_lines(
    axis: Any, curves: Mapping[str, tuple[NDArray[np.float64], NDArray[np.float64]]]
) -> None:
    """A line for each setting, and at its end the range over runs; ranges stand side by side."""
    most = max((float(x[-1]) for x, _ in curves.values() if len(x)), default=1.0)
    several = any(len(values) > 1 for _, values in curves.values())
    step = 0.025 * most
    for number, ((x, values), (color, before)) in enumerate(
        zip(curves.values(), _looks(curves), strict=True), start=1
    ):
        if not len(x):
            continue
        mean, style = values.mean(axis=0), LINES[before % len(LINES)] if len(x) > 1 else "o"
        axis.plot(x, mean, style, color=color, linewidth=2, zorder=3)
        if len(values) > 1:
            place, low, high = x[-1] + number * step, values[:, -1].min(), values[:, -1].max()
            axis.vlines(place, low, high, color=color, alpha=0.5, linewidth=2.5)
            axis.plot(place, mean[-1], "o", color=color, markersize=4)
    axis.set_xlim(0, most + step * (len(curves) + 1 if several else 1.6))
    axis.set_xticks([tick for tick in axis.get_xticks() if tick <= most])
    axis.set_xlabel("trajectories")


def _plot_points(
    axis: Any,
    curves: Mapping[str, tuple[NDArray[np.float64], NDArray[np.float64]]],
    labels: Sequence[str],
    key: str,
) -> None:
    """A column for each setting: its mean, and its range over runs."""
    for number, (_, values) in enumerate(curves.values()):
        color, _ = _looks(curves)[number]
        axis.vlines(number, values.min(), values.max(), color=color, alpha=0.5, linewidth=2.5)
        axis.plot(number, values.mean(), "o", color=color, markersize=6, zorder=3)
    width = max(8, 48 // max(1, len(labels)))
    words = [wrap_label(label.replace("_", " ") if key else label, width) for label in labels]
    if any(len(line) > width + 2 for word in words for line in word.splitlines()):
        words = ["\n" * (number % 2) + word for number, word in enumerate(words)]
    axis.set_xticks(range(len(curves)), words, fontsize=8.5 if len(words) < 6 else 7.5)
    axis.set_xlim(-0.5, len(curves) - 0.5)
    at = " to ".join(dict.fromkeys(f"{end:,.0f}" for end in _ends(curves)))
    axis.set_xlabel("; ".join(filter(None, [key, f"after {at} trajectories"])))


def _looks(names: Iterable[str]) -> list[tuple[str, int]]:
    """Returns for each name its colour, and the number of earlier names with the same colour.

    A method keeps its colour of `METHODS`. A variant such as ``TRCA-stages`` has the colour of a
    method that is not there. Of several names of one method only the first has the colour.
    """
    words = [name.partition(" ")[0] for name in names]
    methods = [w.partition("-")[0] for w in words]
    own = [
        METHODS.get(word if word in METHODS or method in words else method)
        for word, method in zip(words, methods, strict=True)
    ]
    own = [None if color in own[:k] else color for k, color in enumerate(own)]
    others = [c for c in SERIES if c not in own]
    if any(own):
        others.sort(key=list(METHODS.values()).count)  # colours of no method first
    free = itertools.chain(others, itertools.cycle(SERIES))
    colors = [color or next(free) for color in own]
    return [(color, colors[:k].count(color)) for k, color in enumerate(colors)]


def _long(names: Iterable[str]) -> bool:
    """Whether names have no place inside a picture, and are numbered below it."""
    return max(map(len, names), default=0) > 32


def _count(values: Iterable[Sequence[Any]]) -> str:
    """How many runs stand behind values, as ``6 runs`` or ``4 to 6 runs``."""
    counts = [len(each) for each in values]
    n = " to ".join(str(count) for count in dict.fromkeys((min(counts), max(counts))))
    return f"{n} {'run' if n == '1' else 'runs'}"


def tinted(color: str, shade: float) -> tuple[float, float, float]:
    """A colour mixed with white; nothing shows through it."""
    from matplotlib.colors import to_rgb

    red, green, blue = (1 - shade * (1 - part) for part in to_rgb(color))
    return red, green, blue


def _ends(found: Mapping[str, tuple[NDArray[np.float64], Any]]) -> tuple[float, float]:
    """The least and the most trajectories of points."""
    x = [float(each[0]) for each, _ in found.values()]
    return min(x), max(x)


def _success_at(rows: Sequence[Mapping[str, Any]], budget: int) -> float:
    """The moving mean of training success at the last iteration within a budget."""
    within = np.flatnonzero(column(rows, "trajectories") <= budget)
    at = int(within[-1]) if len(within) else 0
    return float(moving_mean(column(rows, "success_rate"))[at])


def _together(
    runs: Sequence[Sequence[Mapping[str, Any]]], key: str
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Trajectories, and a metric of runs (runs, points), at the iterations where all have it."""
    length = min(map(len, runs))
    x = column(runs[0], "trajectories")[:length]
    values = np.stack([column(rows, key)[:length] for rows in runs])
    if not key.startswith("evaluation/"):
        values = np.stack([moving_mean(row) for row in values])
    known = ~np.isnan(values).any(axis=0)
    return x[known], values[:, known]
