"""Pictures of training over trajectories: the curve of one run, and runs beside each other."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from trca.analysis.diagnosis import Diagnosis

WINDOW: Final = 5
"""Iterations in the trailing mean of training success."""

INK: Final = "#22313f"
TRAIN: Final = "#2a6f97"
HELD_OUT: Final = "#d1495b"
EXECUTION: Final = "#4f772d"
FOUNDATION: Final = "#e09f3e"
SERIES: Final = (HELD_OUT, TRAIN, "#7a8794", EXECUTION, FOUNDATION, "#6d597a")
"""Colours of the runs of a comparison, in order."""
METHODS: Final = {"TRCA": HELD_OUT, "GRPO": TRAIN, "GiGPO": EXECUTION, "HiPER": "#6d597a"}
"""Methods that have the same colour in every picture."""

LINES: Final = ("-", "--", ":")
"""Styles of lines, where there are more of them than colours."""

BUDGET_SHARES: Final = (0.3, 0.6, 1.0)
"""Shares of a run's trajectories: the paper's 1.92K and 3.84K of 6.40K."""
CLASSSERIES: Final = (EXECUTION, TRAIN, FOUNDATION, "#c3cad1")
"""Colours of Execution, Evidence, Validity and Other."""
CATEGORYSERIES: Final = {"execution": EXECUTION, "evidence": TRAIN, "invalidity": HELD_OUT}

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
    """The mean of each value and the ``window - 1`` before it, leaving NaN out."""
    return np.array(
        [_mean(values[max(0, end - window) : end]) for end in range(1, len(values) + 1)],
        dtype=float,
    )


def draw_curve(rows: Sequence[Mapping[str, Any]], path: Path, title: str, panel: str = "") -> None:
    """Draws a run's metrics to a PNG: success above, rubric rewards below.

    Args:
        rows: One mapping an iteration: ``trajectories``, ``success_rate``, and where there are any
            ``evaluation/success_rate`` with its interval ``evaluation/success_low`` and
            ``evaluation/success_high``, ``evaluation/n``, ``foundational_reward``,
            ``breakthrough_reward``.
        path: The file, replaced at once.
        title: The title: run, algorithm and environment.
        panel: The tasks, for the line below the title.
    """
    with _figure(path, (7.2, 5.8)) as figure:
        plot_curve(figure, rows, title, panel)


def draw_comparison(
    runs: Mapping[str, Sequence[Sequence[Mapping[str, Any]]]],
    path: Path,
    title: str,
    panel: str,
    formats: Sequence[str] = ("png",),
) -> None:
    """Draws success of several settings: the mean over runs, and their range as a band.

    Args:
        runs: The rows of metrics of each run, by the name of its setting.
        path: The file, replaced at once.
        title: The title: what is compared, and the environment.
        panel: The tasks, for the line below the panels.
        formats: Files to write, such as ``svg``, each beside the path.
    """
    height = 4.2 + 0.2 * len(runs) * _long(runs)
    with _figure(path, (9.6, height), formats) as figure:
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
    with _figure(path, (7.6, 4.2), ("png", "svg")) as figure:
        axis = figure.subplots()
        shortest = min(
            (rows for each in runs.values() for rows in each), key=lambda r: r[-1]["trajectories"]
        )
        ends = [max(1, round(share * len(shortest))) - 1 for share in BUDGET_SHARES]
        budgets = [shortest[end]["trajectories"] for end in ends]
        width = 0.8 / len(runs)
        looks = _looks(runs)
        for number, (setting, each) in enumerate(runs.items()):
            values = np.array([[_success_at(rows, budget) for budget in budgets] for rows in each])
            mean = values.mean(axis=0)
            place = np.arange(3) + width * (number - (len(runs) - 1) / 2)
            errors = np.abs(np.stack([values.min(axis=0), values.max(axis=0)]) - mean)
            color, before = looks[number]
            hatch = ("", "//", "..")[before % 3]
            style = {"color": color, "hatch": hatch, "edgecolor": "white", "label": setting}
            axis.bar(place, mean, 0.9 * width, yerr=errors, ecolor=INK, capsize=2, **style)
        axis.set_xticks(range(3), [f"{budget:,}" for budget in budgets])
        axis.set_xlabel("trajectories")
        axis.set_ylabel(f"training success, last {WINDOW} iterations")
        _success_axis(axis)
        axis.grid(visible=False, axis="x")
        axis.legend(loc="upper left", ncols=2)
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
    with _figure(path, (7.6, 1.6 + 0.5 * len(types)), ("png", "svg")) as figure:
        axis = figure.subplots()
        step = 0.6 / max(1, len(shares))
        looks = _looks(shares)
        for number, (setting, each) in enumerate(shares.items()):
            color, before = looks[number]
            marker = ("o", "D", "^")[before % 3]
            for row, kind in enumerate(types):
                if kind not in each:
                    continue
                place = row + step * (number - (len(shares) - 1) / 2)
                axis.hlines(place, min(each[kind]), max(each[kind]), color=color, alpha=0.4)
                label = setting if row == 0 else None
                axis.plot(np.mean(each[kind]), place, marker, color=color, label=label)
        axis.set_yticks(range(len(types)), types)
        axis.invert_yaxis()
        axis.set_xlim(-0.02, 1.02)
        axis.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        axis.set_xlabel("success, held out")
        axis.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
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
    with _figure(path, (7.6, 5.2), ("png", "svg")) as figure:
        axis = figure.subplots(subplot_kw={"projection": "polar"})
        axis.set_theta_offset(np.pi / 2)
        axis.set_theta_direction(-1)
        for (setting, each), (color, before) in zip(whole.items(), _looks(whole), strict=True):
            means = [np.mean(each[kind]) for kind in types]
            axis.plot(
                [*angles, angles[0]],
                [*means, means[0]],
                color=color,
                linestyle=LINES[before % len(LINES)],
                marker="o",
                markersize=3.5,
                label=setting,
            )
        axis.set_xticks(angles, types)
        axis.tick_params(axis="x", pad=10)
        rings = MaxNLocator(4).tick_values(0, max(axis.get_ylim()[1], 0.01))
        axis.set_yticks(rings[1:])
        axis.set_ylim(0, rings[-1])
        axis.set_rlabel_position(3)
        axis.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        axis.legend(loc="center left", bbox_to_anchor=(1.15, 0.5))
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
    with _figure(path, (7.6, 4.2), ("png", "svg")) as figure:
        axis = figure.subplots()
        for number, kind in enumerate([whole, *types]):
            found = sorted(shares[kind].items())
            values = [value for value, _ in found]
            color = INK if kind == whole else SERIES[(number - 1) % len(SERIES)]
            line = LINES[(number - 1) // len(SERIES) % len(LINES)]
            style = {"linewidth": 2.6} if kind == whole else {"linewidth": 1.3, "linestyle": line}
            means = [np.mean(each) for _, each in found]
            axis.plot(values, means, marker="o", color=color, markersize=4, label=kind, **style)
            if kind == whole:
                lowest, highest = zip(*((min(each), max(each)) for _, each in found), strict=True)
                axis.fill_between(values, lowest, highest, color=_tint(INK, 0.1), zorder=0)
        axis.set_xticks(sorted({value for each in shares.values() for value in each}))
        axis.set_xlabel(setting)
        axis.set_ylabel("success, held out")
        _success_axis(axis)
        axis.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
        figure.suptitle(title, x=0.01, ha="left", fontweight="bold")
        count = _count(shares[whole].values())
        words = f"lines: mean of {count}; band: their lowest to highest, of {whole}"
        figure.supxlabel(words, x=0.01, ha="left", size=8.5)


def draw_diagnosis(
    parts: Mapping[str, Diagnosis], categories: Mapping[str, str], path: Path, title: str
) -> None:
    """Draws a diagnosis to a PNG: failures, transitions of failed rollouts, operators that fired.

    Args:
        parts: The diagnoses, by what they are of; one or two.
        categories: The category of each operator, in order.
        path: The file, replaced at once.
        title: The run and its environment.
    """
    with _figure(path, (10.4, 5.2)) as figure:
        plot_diagnosis(figure, parts, categories, title)


def plot_curve(figure: Any, rows: Sequence[Mapping[str, Any]], title: str, panel: str = "") -> None:
    """Plots what `draw_curve` draws.

    Iteration 1 is sampled by the policy at the start, so its success is drawn as the start's.
    """
    x = column(rows, "trajectories")
    success = column(rows, "success_rate")
    measured = [row for row in rows if row.get("evaluation/success_rate") is not None]
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
    label = f"training, mean of the last {WINDOW} iterations"
    upper.plot(x, success, ".", color=TRAIN, alpha=0.35, label="training, one iteration")
    upper.plot(x, moving_mean(success), color=TRAIN, linewidth=2.2, label=label)
    if len(success):
        label = f"training at the start, {success[0]:.0%}"
        upper.axhline(success[0], color=INK, linewidth=1, linestyle=":", label=label)
        upper.set_xlim(left=0, right=max(x[-1], 1) * 1.04)
    _plot_held_out(upper, measured)
    _success_axis(upper)
    upper.set_ylabel("success")
    upper.set_title(f"{title}\n", loc="left", fontweight="bold")
    note = "; ".join(filter(None, [panel, *_sizes(x, measured)]))
    upper.text(0, 1.03, note, transform=upper.transAxes, fontsize=8.5)
    upper.legend(loc="upper left")

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


def plot_comparison(
    figure: Any,
    runs: Mapping[str, Sequence[Sequence[Mapping[str, Any]]]],
    title: str,
    panel: str,
) -> None:
    """Plots what `draw_comparison` draws."""
    left, right = figure.subplots(1, 2, sharey=True)
    most = max(
        (row["trajectories"] for each in runs.values() for r in each for row in r), default=1
    )
    for axis, key, name in (
        (left, "success_rate", f"training, mean of the last {WINDOW} iterations"),
        (right, "evaluation/success_rate", "held out"),
    ):
        _success_axis(axis)
        axis.set_title(name, loc="left", fontsize=10)
        found = {setting: _together(each, key) for setting, each in runs.items()}
        if found and all(len(x) == 1 for x, _ in found.values()):
            _plot_points(axis, found)
            continue
        axis.set_xlim(0, 1.04 * most)
        axis.set_xlabel("trajectories")
        for (setting, (x, values)), (color, before) in zip(
            found.items(), _looks(found), strict=True
        ):
            each, style = runs[setting], LINES[before % len(LINES)]
            if len(x) == 1:
                style = "o"
            if len(each) > 1:
                low, high = values.min(axis=0), values.max(axis=0)
                shade = 0.15 if len(runs) <= 4 else 0.07
                axis.fill_between(x, low, high, color=color, alpha=shade, linewidth=0, zorder=1)
            mean = values.mean(axis=0)
            axis.plot(x, mean, style, color=color, linewidth=2, label=setting, zorder=3)
    highest = max(left.dataLim.y1, right.dataLim.y1)
    if 0 < highest < 0.5:
        left.set_ylim(-0.02 * highest, 1.25 * highest)
    left.set_ylabel("success")
    band = "bands and whiskers: lowest to highest" if max(map(len, runs.values())) > 1 else ""
    note = "; ".join(filter(None, [panel, f"mean of {_count(runs.values())}", band]))
    figure.suptitle(title, x=0.01, ha="left", fontweight="bold")
    if _long(runs):
        lines, _ = left.get_legend_handles_labels()
        words = [f"{number}: {setting}" for number, setting in enumerate(runs, start=1)]
        text: dict[str, Any] = {"alignment": "left", "fontsize": 8.5, "title_fontsize": 8.5}
        figure.legend(lines, words, title=note, loc="outside lower left", **text)
    else:
        left.legend(loc="upper left")
        figure.supxlabel(note, x=0.01, ha="left", fontsize=8.5)


def plot_diagnosis(
    figure: Any, parts: Mapping[str, Diagnosis], categories: Mapping[str, str], title: str
) -> None:
    """Plots what `draw_diagnosis` draws; of two parts the first is pale."""
    left, right = figure.subplots(1, 2, width_ratios=(5, 4))
    height, shades = 0.8 / len(parts), (1.0,) if len(parts) == 1 else (0.45, 1.0)
    places = [height * (k - (len(parts) - 1) / 2) for k in range(len(parts))]
    rows = ("failed rollouts", "groups without\na success", "actions of\nfailed rollouts")
    classes = dict(zip(CLASSSERIES, ("Execution", "Evidence", "Validity", "Other"), strict=True))
    for (words, each), shade, place in zip(parts.items(), shades, places, strict=True):
        for row, share in enumerate((each.failure_rate, each.success_free_groups)):
            left.barh(row + place, share, 0.9 * height, color=_tint(INK, shade))
            left.text(share + 0.01, row + place, f"{share:.0%}  {words}", va="center", fontsize=8)
        start = 0.0
        for color, name in classes.items():
            share = each.classes[name]
            label = name if shade == 1.0 else None
            tint = _tint(color, shade)
            left.barh(2 + place, share, 0.9 * height, start, color=tint, label=label)
            if share > 0.05:
                middle = start + share / 2
                ink = "white" if shade == 1.0 and color in (EXECUTION, TRAIN) else INK
                style = {"ha": "center", "va": "center", "fontsize": 8, "color": ink}
                left.text(middle, 2 + place, f"{share:.0%}", **style)
            start += share
        values = [each.fired.get(name, 0.0) for name in categories]
        tints = [_tint(CATEGORYSERIES[categories[name]], shade) for name in categories]
        at = np.arange(len(values)) + place
        right.barh(at, values, 0.9 * height, color=tints)
    left.set_yticks(range(3), rows)
    left.set_xlim(0, 1.0)
    left.set_xlabel("share")
    left.set_title("How scarce is success, and what is left?", loc="left", fontsize=10)
    left.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=4)
    right.set_yticks(range(len(categories)), list(categories), fontsize=8)
    right.set_xlabel("share of all steps")
    right.set_title("Steps on which an operator fired", loc="left", fontsize=10)
    for category in ("evidence", "invalidity", "execution"):
        right.barh(0, 0, color=CATEGORYSERIES[category], label=category.capitalize())
    right.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=3)
    for axis in (left, right):
        axis.invert_yaxis()
        axis.grid(visible=False, axis="y")
        axis.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    figure.suptitle(title, x=0.01, ha="left", fontweight="bold")
    shown = "; ".join(
        f"{'pale' if shade < 1 else 'full'}: {words}, {each.rollouts:,} rollouts"
        for (words, each), shade in zip(parts.items(), shades, strict=True)
    )
    figure.supxlabel(shown, x=0.01, ha="left", fontsize=8.5)


def panel_words(env_config: Mapping[str, Any], train_split: str, evaluation_split: str) -> str:
    """The tasks of a run in words, for a picture: ``games=small; train, valid_seen``."""
    silent = ("max_steps", "library", "split")
    given = ", ".join(f"{key}={value}" for key, value in env_config.items() if key not in silent)
    return "; ".join(
        filter(None, [given, f"trained on {train_split}, held out {evaluation_split}"])
    )


@contextmanager
def _figure(
    path: Path, size: tuple[float, float], formats: Sequence[str] = ("png",)
) -> Iterator[Any]:
    """A figure that is written when the block ends, replacing each file at once."""
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


def _plot_held_out(axis: Any, measured: Sequence[Mapping[str, Any]]) -> None:
    """Held-out success, with its 95% interval where the rows have one."""
    if not measured:
        return
    x, success = column(measured, "trajectories"), column(measured, "evaluation/success_rate")
    low, high = (column(measured, f"evaluation/success_{end}") for end in ("low", "high"))
    errors = np.nan_to_num(np.maximum([success - low, high - success], 0.0))
    label = "held out" if np.isnan(low).all() else "held out, 95% interval"
    axis.errorbar(
        x, success, errors, fmt="o-", color=HELD_OUT, linewidth=1.2, capsize=3, label=label
    )


def _plot_points(
    axis: Any, found: Mapping[str, tuple[NDArray[np.float64], NDArray[np.float64]]]
) -> None:
    """One point a setting, each in a column of its own, and its range over runs."""
    for number, (setting, (_, values)) in enumerate(found.items()):
        color, _ = _looks(found)[number]
        axis.vlines(number, values.min(), values.max(), color=color, alpha=0.5, linewidth=2.5)
        axis.plot(number, values.mean(), "o", color=color, markersize=6, zorder=3, label=setting)
    labels = list(map(str, range(1, len(found) + 1))) if _long(found) else list(found)
    slant: dict[str, Any] = {"rotation": 20, "ha": "right"} if len("".join(labels)) > 36 else {}
    axis.set_xticks(range(len(found)), labels, fontsize=8.5, **slant)
    axis.set_xlim(-0.5, len(found) - 0.5)
    at = " to ".join(dict.fromkeys(f"{end:,.0f}" for end in _ends(found)))
    axis.set_xlabel(f"after {at} trajectories")


def _looks(names: Iterable[str]) -> list[tuple[str, int]]:
    """A colour for each name, and how many names before have the same; methods keep their own.

    Where a method stands under several names, such as one for each lambda, none keeps its own.
    """
    own = [METHODS.get(name.partition(" ")[0].partition("-")[0]) for name in names]
    kept = [color for color in own if color]
    if len(set(kept)) < len(kept):
        own = [None] * len(own)
    others = [c for c in SERIES if c not in own]
    if any(own):
        others.sort(key=list(METHODS.values()).count)  # those of no method first
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


def _tint(color: str, shade: float) -> tuple[float, float, float]:
    """A colour mixed with white; nothing shows through it."""
    from matplotlib.colors import to_rgb

    red, green, blue = (1 - shade * (1 - part) for part in to_rgb(color))
    return red, green, blue


def _ends(found: Mapping[str, tuple[NDArray[np.float64], Any]]) -> tuple[float, float]:
    """The least and the most trajectories of points."""
    x = [float(each[0]) for each, _ in found.values()]
    return min(x), max(x)


def _sizes(x: NDArray[np.float64], measured: Sequence[Mapping[str, Any]]) -> list[str]:
    """How many rollouts the points stand for."""
    sizes = [f"{x[0]:.0f} rollouts per iteration"] if len(x) else []
    n = column(measured, "evaluation/n")[-1:]
    return [*sizes, *(f"{count:.0f} rollouts held out" for count in n if not np.isnan(count))]


def _success_at(rows: Sequence[Mapping[str, Any]], budget: int) -> float:
    """The moving mean of training success at the last iteration within a budget."""
    within = np.flatnonzero(column(rows, "trajectories") <= budget)
    at = int(within[-1]) if len(within) else 0
    return float(moving_mean(column(rows, "success_rate"))[at])


def _success_axis(axis: Any) -> None:
    axis.set_ylim(-0.02, 1.02)
    axis.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")


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


def sparkline(values: NDArray[np.float64], width: int = 40) -> str:
    """Values from 0 to 1 as a row of at most ``width`` bars."""
    bars = "▁▂▃▄▅▆▇█"
    parts = np.array_split(values, min(width, len(values))) if len(values) else []
    means = [_mean(part) for part in parts]
    return "".join(
        " " if np.isnan(mean) else bars[min(len(bars) - 1, int(mean * len(bars)))] for mean in means
    )


def _mean(values: NDArray[np.float64]) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")
