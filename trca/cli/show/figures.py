"""Pictures of several runs: comparisons, budgets, types of tasks, and success over a setting.

``runs`` are the rows of metrics of each run, by the name of its setting; ``shares`` are the success
of each run, by the name of its setting and the type of task. A file is replaced atomically.
"""

from __future__ import annotations

import itertools
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

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
    percent,
    success_axis,
)

if TYPE_CHECKING:
    from trca.algorithms.base.audit import Agreement

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
BUDGET_SHARES: Final = (0.3, 0.6, 1.0)
"""Shares of a run's trajectories: the paper's 1.92K and 3.84K of 6.40K."""
NOTE_WIDTH: Final = 150
"""Characters in a line of the note below a picture."""
_LONGEST_TICK: Final = 32
_LINES: Final = ("-", "--", ":")
_ABOVE: Final = {"loc": "lower left", "bbox_to_anchor": (-0.01, 1.0), "ncols": 4}
_ABOVE_WIDTH: Final = 64
"""Characters that fit into a legend above an axis."""
_RIGHT: Final = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)}
_RIMS: Final = (0.04, 0.1, 0.2, 0.4, 0.6, 0.8)
"""Rims of a radar whose four rings are round shares; 100% is the largest."""
_BOTH: Final = ("png", "svg")

_Runs = Mapping[str, Sequence[Sequence[Mapping[str, Any]]]]
_Curve = tuple[NDArray[np.float64], NDArray[np.float64]]


def draw_comparison(
    runs: _Runs, path: Path, title: str, panel: str, formats: Sequence[str] = ("png",)
) -> None:
    """Draws success of several settings: the mean over runs as a line, and the range at its end.

    ``panel`` names the tasks below the picture. ``formats`` are files with the name of the path.
    """
    with figure_in(path, (10.8, 4.2), formats) as figure:
        plot_comparison(figure, runs, title, panel)


def plot_comparison(figure: Any, runs: _Runs, title: str, panel: str) -> None:
    """Plots what `draw_comparison` draws."""
    from matplotlib.lines import Line2D

    axes = figure.subplots(1, 2, sharey=True)
    key, labels = label_names(list(runs))
    notes = [panel, f"mean of {_count(runs.values())}"]
    notes += ["whiskers: lowest to highest"] if max(map(len, runs.values())) > 1 else []
    names = (f"training, mean of the last {WINDOW} iterations", "held out")
    metrics, looks = ("success_rate", "evaluation/success_rate"), styles(runs)
    legend = max(map(len, labels)) > _LONGEST_TICK
    for axis, name, metric in zip(axes, names, metrics, strict=True):
        success_axis(axis)
        axis.set_title(name, loc="left", fontsize=10)
        curves = [_together(each, metric) for each in runs.values()]
        if curves and all(0 < len(x) < 3 for x, _ in curves):
            _plot_points(axis, curves, looks, labels, key)
        else:
            _plot_lines(axis, curves, looks)
            legend = legend or any(len(x) for x, _ in curves)
            notes += _coinciding(curves, labels)
    highest = max(axis.dataLim.y1 for axis in axes)
    if 0 < highest < 0.5:
        axes[0].set_ylim(-0.02 * highest, 1.25 * highest)
        notes.append(f"the axis ends at {1.25 * highest:.0%}")
    axes[0].set_ylabel("success")
    if legend:
        shown = [Line2D([], [], color=color, ls=_LINES[before % 3]) for color, before in looks]
        axes[1].legend(shown, [_folded(each) for each in labels], title=key or None, **_RIGHT)
    _describe(figure, title, "; ".join(filter(None, dict.fromkeys(notes))))


def _coinciding(curves: Sequence[_Curve], labels: Sequence[str]) -> list[str]:
    """A note for each pair of settings with the same line, of which one is hidden."""
    return [
        f"{labels[first]} and {labels[other]} are the same line"
        for other, (x, values) in enumerate(curves)
        for first, (x_before, values_before) in enumerate(curves[:other])
        if len(x) > 1
        and np.array_equal(x, x_before)
        and np.allclose(values.mean(axis=0), values_before.mean(axis=0))
    ]


def _legend(axis: Any, key: str, right: tuple[float, float] | None = None) -> None:
    """Explains the colours above an axis; at its right side if there is no room above."""
    lines, labels = axis.get_legend_handles_labels()
    if right is None and len(labels) < 5 and sum(map(len, labels)) < _ABOVE_WIDTH:
        axis.legend(**_ABOVE, title=key or None)
        return
    place = {**_RIGHT, "bbox_to_anchor": right} if right else _RIGHT
    words = [_folded(label) for label in labels]
    axis.legend(lines, words, title=key or None, fontsize=9, **place)
    axis.figure.set_figwidth(axis.figure.get_figwidth() + 0.08 * max(map(len, words), default=0))


def _folded(label: str) -> str:
    return textwrap.fill(label, _LONGEST_TICK, break_long_words=False)


def _plot_lines(axis: Any, curves: Sequence[_Curve], looks: Sequence[tuple[str, int]]) -> None:
    """A line for each setting; next to the axis, the range over runs at the end of each line."""
    most = max((float(x[-1]) for x, _ in curves if len(x)), default=1.0)
    step, several = 0.03 * most, any(len(values) > 1 for _, values in curves)
    for number, ((x, values), (color, before)) in enumerate(zip(curves, looks, strict=True), 1):
        if not len(x):
            continue
        mean, style = values.mean(axis=0), _LINES[before % 3] if len(x) > 1 else "o"
        axis.plot(x, mean, style, color=color, linewidth=2, zorder=3)
        if len(values) > 1:
            place, low, high = most + number * step, values[:, -1].min(), values[:, -1].max()
            axis.vlines(place, low, high, color=color, alpha=0.5, linewidth=2.5)
            axis.plot(place, mean[-1], "o", color=color, markersize=4)
    right = most + step * (len(curves) + 1 if several else 1.6)
    axis.set_xlim(0, right)
    axis.set_xticks([tick for tick in axis.get_xticks() if tick <= most])
    axis.set_xlabel("trajectories")
    if several:
        axis.spines["bottom"].set_bounds(0, most)
        axis.axvspan(most + step / 2, right, color=tinted("#9aa5b1", 0.15), zorder=0)
        below = {"transform": axis.get_xaxis_transform(), "ha": "center", "va": "top"}
        axis.text((most + right) / 2, -0.025, "end", fontsize=8, **below)


def _plot_points(
    axis: Any,
    curves: Sequence[_Curve],
    looks: Sequence[tuple[str, int]],
    labels: Sequence[str],
    key: str,
) -> None:
    """A column for each setting: its mean, and its range over runs."""
    for number, ((_, values), (color, _)) in enumerate(zip(curves, looks, strict=True)):
        ends = values[:, -1]
        axis.vlines(number, ends.min(), ends.max(), color=color, alpha=0.5, linewidth=2.5)
        axis.plot(number, ends.mean(), "o", color=color, markersize=6, zorder=3)
    if max(map(len, labels)) > _LONGEST_TICK:  # the legend has the names
        labels = [""] * len(labels)
    width = max(8, 48 // len(labels))
    words = [
        textwrap.fill(label.replace("_", " ") if key else label, width, break_long_words=False)
        for label in labels
    ]
    if any(len(line) > width + 2 for word in words for line in word.splitlines()):
        words = ["\n" * (number % 2) + word for number, word in enumerate(words)]
    axis.set_xticks(range(len(curves)), words, fontsize=8.5 if len(words) < 6 else 7.5)
    axis.set_xlim(-0.5, len(curves) - 0.5)
    at_ends = [float(x[-1]) for x, _ in curves]
    at = " to ".join(dict.fromkeys(f"{end:,.0f}" for end in (min(at_ends), max(at_ends))))
    axis.set_xlabel("; ".join(filter(None, [key, f"after {at} trajectories"])))


def draw_budgets(runs: _Runs, path: Path, title: str) -> None:
    """Draws training success at three budgets of trajectories to PNG and SVG.

    The budgets are 30%, 60% and 100% of the shortest run, as the paper's 1.92K, 3.84K and 6.40K.
    """
    shortest = min(
        (rows for each in runs.values() for rows in each), key=lambda rows: rows[-1]["trajectories"]
    )
    ends = [max(1, round(share * len(shortest))) - 1 for share in BUDGET_SHARES]
    budgets = [shortest[end]["trajectories"] for end in ends]
    note = f"bars: mean, whiskers: lowest to highest of {_count(runs.values())}"
    with _picture(path, (7.6, 4.2), title, note) as axis:
        width = 0.8 / len(runs)
        key, labels = label_names(list(runs))
        for number, (each, label, (color, before)) in enumerate(
            zip(runs.values(), labels, styles(runs), strict=True)
        ):
            values = np.array([[_success_at(rows, budget) for budget in budgets] for rows in each])
            mean = values.mean(axis=0)
            place = np.arange(3) + width * (number - (len(runs) - 1) / 2)
            errors = np.abs(np.stack([values.min(axis=0), values.max(axis=0)]) - mean)
            hatch = ("", "//", "..")[before % 3]
            style = {"color": color, "hatch": hatch, "edgecolor": "white", "label": label}
            axis.bar(place, mean, 0.9 * width, yerr=errors, ecolor=INK, capsize=2, **style)
            for x, value in zip(place, mean, strict=True):
                if round(value, 2) == 0:  # a bar of no height
                    axis.text(x, 0.005, "0%", ha="center", va="bottom", color=color, size=8)
        axis.set_xticks(range(3), [f"{budget:,}" for budget in budgets])
        axis.set_xlabel("trajectories")
        axis.set_ylabel(f"training success, last {WINDOW} iterations")
        success_axis(axis)
        axis.grid(visible=False, axis="x")
        _legend(axis, key)


def draw_types(shares: Mapping[str, Mapping[str, Sequence[float]]], path: Path, title: str) -> None:
    """Draws held-out success by type of task to PNG and SVG."""
    types = _types(shares)
    count = _count(values for each in shares.values() for values in each.values())
    note = f"dots: mean, lines: lowest to highest of {count}"
    with _picture(path, (7.6, 1.6 + 0.5 * len(types)), title, note) as axis:
        step = 0.6 / max(1, len(shares))
        key, labels = label_names(list(shares))
        for number, (each, label, (color, before)) in enumerate(
            zip(shares.values(), labels, styles(shares), strict=True)
        ):
            places = [types.index(kind) + step * (number - (len(shares) - 1) / 2) for kind in each]
            ends = map(min, each.values()), map(max, each.values())
            axis.hlines(places, *map(list, ends), color, alpha=0.4)
            means = [np.mean(values) for values in each.values()]
            axis.plot(means, places, ("o", "D", "^")[before % 3], color=color, label=label)
        axis.set_yticks(range(len(types)), types)
        axis.invert_yaxis()
        axis.set_xlim(-0.02, 1.02)
        axis.xaxis.set_major_formatter(percent)
        axis.set_xlabel("success, held out")
        _legend(axis, key)


def draw_radar(shares: Mapping[str, Mapping[str, Sequence[float]]], path: Path, title: str) -> None:
    """Draws success by type of task as a radar, as the paper, without settings that lack a type."""
    types = _types(shares)
    whole = {name: each for name, each in shares.items() if each.keys() >= set(types)}
    angles = np.linspace(0, 2 * np.pi, len(types), endpoint=False)
    count = _count(values for each in whole.values() for values in each.values())
    note = f"success, held out; mean of {count}"
    with _picture(path, (7.6, 5.2), title, note, projection="polar") as axis:
        axis.set_theta_offset(np.pi / 2)
        axis.set_theta_direction(-1)
        key, labels = label_names(list(whole))
        for each, label, (color, before) in zip(whole.values(), labels, styles(whole), strict=True):
            means = [np.mean(each[kind]) for kind in types]
            style = {"linestyle": _LINES[before % 3], "marker": "o", "markersize": 3.5}
            axis.plot([*angles, angles[0]], [*means, means[0]], color=color, label=label, **style)
        axis.set_xticks(angles, types)
        axis.tick_params(axis="x", pad=10)
        rim = next((r for r in _RIMS if r >= axis.dataLim.y1), 1.0)
        axis.set_yticks(np.linspace(0, rim, 5)[1:])
        axis.set_ylim(0, rim)
        axis.set_rlabel_position(3)
        axis.yaxis.set_major_formatter(percent)
        _legend(axis, key, (1.12, 0.9))


def draw_setting(
    shares: Mapping[str, Mapping[float, Sequence[float]]], setting: str, path: Path, title: str
) -> None:
    """Draws held-out success over the values of a setting to PNG and SVG, a line a type of task.

    ``shares`` are the success of each run, by type and value. The last type is that of all tasks;
    it is drawn bold, with the range over runs.
    """
    *types, whole = shares
    count = _count(shares[whole].values())
    note = f"lines: mean of {count}; band: their lowest to highest, of {whole}"
    with _picture(path, (7.6, 4.2), title, note) as axis:
        for number, kind in enumerate([whole, *types]):
            points = dict(sorted(shares[kind].items()))
            means = [float(np.mean(values)) for values in points.values()]
            color = INK if kind == whole else SERIES[(number - 1) % len(SERIES)]
            line = _LINES[(number - 1) // len(SERIES) % len(_LINES)]
            style = {"linewidth": 2.6} if kind == whole else {"linewidth": 1.3, "linestyle": line}
            axis.plot(list(points), means, marker="o", ms=4, color=color, label=kind, **style)
            if kind == whole:
                ends = map(min, points.values()), map(max, points.values())
                axis.fill_between(list(points), *map(list, ends), color=tinted(INK, 0.1), zorder=0)
        axis.set_xticks(sorted({value for each in shares.values() for value in each}))
        axis.set_xlabel(symbol(setting))
        axis.set_ylabel("success, held out")
        success_axis(axis)
        axis.legend(**_RIGHT)


def draw_audit(agreements: Mapping[str, Agreement], ceiling: float, path: Path, title: str) -> None:
    """Draws the agreement of credit rules with advantages by execution to PNG and SVG.

    ``ceiling`` is the rank correlation of advantages without error.
    """
    shown = {name: each for name, each in agreements.items() if each.defined}
    note = (
        "dots: over all steps, with 95% interval over tasks; circles: of the steps of one rollout"
    )
    with _picture(path, (7.6, 2.4 + 0.27 * len(shown)), title, note) as axis:
        for place, (each, (color, _)) in enumerate(zip(shown.values(), styles(shown), strict=True)):
            axis.hlines(place, each.low, each.high, color, alpha=0.4, linewidth=2.5)
            axis.plot(each.correlation, place, "o", color=color, zorder=3)
            axis.plot(each.in_rollouts, place, "o", color=color, fillstyle="none", zorder=3)
        axis.axvline(0, color="#9aa5b1", linewidth=0.8)
        axis.axvline(ceiling, color="#9aa5b1", linewidth=0.8, linestyle=":")
        axis.text(ceiling, -0.8, "no error", ha="center", va="bottom", fontsize=8)
        axis.set_yticks(range(len(shown)), list(shown))
        axis.set_ylim(max(len(shown), 1) - 0.4, -0.6)
        axis.grid(visible=False, axis="y")
        axis.set_xlabel("rank correlation with the advantage by execution")


@contextmanager
def _picture(
    path: Path, size: tuple[float, float], title: str, note: str, **subplot: Any
) -> Iterator[Any]:
    """Yields the axis of a picture with one panel, and writes it as PNG and SVG."""
    with figure_in(path, size, _BOTH) as figure:
        yield figure.subplots(subplot_kw=subplot)
        _describe(figure, title, note)


def _describe(figure: Any, title: str, note: str) -> None:
    figure.suptitle(title, x=0.01, ha="left", fontweight="bold")
    lines = textwrap.fill(note, NOTE_WIDTH)
    figure.supxlabel(lines, x=0.01, ha="left", fontsize=8.5)


def symbol(setting: str) -> str:
    """The paper's symbol of a setting, or the setting's name."""
    return {"lambda_": "λ"}.get(setting, setting)


def label_names(names: Sequence[str]) -> tuple[str, list[str]]:
    """The key that distinguishes all names, and a label for each name.

    A name is a method, ``key=value``, or both. Names ``anchor=context`` and ``anchor=observation``
    have the key ``anchor`` and the labels ``context`` and ``observation``. Labels leave out what
    all names share. Names that differ in more have no key; ``key=value`` becomes ``key value``.
    """
    split = [re.split(r"(?:^|\s+)([\w.]+)=", name) for name in names]
    parts = [dict(zip(each[1::2], each[2::2], strict=True)) for each in split]
    heads = [each[0] for each in split]
    keys = list(dict.fromkeys(key for each in parts for key in each))
    if len(set(names)) > 1:
        heads = [""] * len(heads) if len(set(heads)) == 1 and keys else heads
        keys = [key for key in keys if len({each.get(key) for each in parts}) > 1]
    if len(keys) == 1 and not any(heads) and all(keys[0] in each for each in parts):
        return symbol(keys[0]), [each[keys[0]] for each in parts]
    labels = []
    for head, each in zip(heads, parts, strict=True):
        words = "; ".join(f"{symbol(key)} {each[key]}" for key in keys if key in each)
        labels.append(f"{head} {words}".strip())
    return "", labels


def tinted(color: str, shade: float) -> tuple[float, float, float]:
    """A colour mixed with white; nothing shows through it."""
    from matplotlib.colors import to_rgb

    red, green, blue = (1 - shade * (1 - part) for part in to_rgb(color))
    return red, green, blue


def styles(names: Iterable[str]) -> list[tuple[str, int]]:
    """Returns for each name its colour, and the number of earlier names with the same colour.

    A method keeps its colour of `METHODS`. A variant such as ``TRCA-stages`` has the colour of a
    method that is not there. Of several names of one method only the first has the colour. The
    values of a number, such as lambda, are shades of one colour.
    """
    names = list(names)
    _, labels = label_names(names)
    if len(labels) > 2 and all(re.fullmatch(r"-?[\d.]+(e-?\d+)?", label) for label in labels):
        from matplotlib.colors import to_hex

        order = sorted(labels, key=float)
        shades = np.linspace(0.3, 1.0, len(labels))
        return [(to_hex(tinted(HELD_OUT, shades[order.index(label)])), 0) for label in labels]
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


def _types(shares: Mapping[str, Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(kind for each in shares.values() for kind in each))


def _count(values: Iterable[Sequence[Any]]) -> str:
    """The number of runs behind values, as ``6 runs`` or ``4 to 6 runs``."""
    counts = [len(each) for each in values]
    n = " to ".join(str(count) for count in dict.fromkeys((min(counts), max(counts))))
    return f"{n} {'run' if n == '1' else 'runs'}"


def _success_at(rows: Sequence[Mapping[str, Any]], budget: int) -> float:
    """The moving mean of training success at the last iteration within a budget."""
    within = np.flatnonzero(column(rows, "trajectories") <= budget)
    at = int(within[-1]) if len(within) else 0
    return float(moving_mean(column(rows, "success_rate"))[at])


def _together(runs: Sequence[Sequence[Mapping[str, Any]]], key: str) -> _Curve:
    """Trajectories, and a metric of runs (runs, points), at the iterations where all have it."""
    length = min(map(len, runs))
    x = column(runs[0], "trajectories")[:length]
    values = np.stack([column(rows, key)[:length] for rows in runs])
    if not key.startswith("evaluation/"):
        values = np.stack([moving_mean(row) for row in values])
    known = ~np.isnan(values).any(axis=0)
    return x[known], values[:, known]
