"""The picture of a diagnosis: transition classes and operators, before and after training."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from trca.cli.show.figures import tinted
from trca.runs.curve import EXECUTION, FOUNDATION, HELD_OUT, INK, TRAIN, figure_in

if TYPE_CHECKING:
    from trca.analysis.diagnosis import Diagnosis

CLASS_COLORS: Final = (EXECUTION, TRAIN, FOUNDATION, "#c3cad1")
"""Colours of Execution, Evidence, Validity and Other."""

CATEGORY_COLORS: Final = {"execution": EXECUTION, "evidence": TRAIN, "invalidity": HELD_OUT}


def draw_diagnosis(
    parts: Mapping[str, Diagnosis], categories: Mapping[str, str], path: Path, title: str
) -> None:
    """Draws a diagnosis to a PNG: failures, transitions of failed rollouts, operators that fired.

    Args:
        parts: One or two diagnoses, by the name of their iterations.
        categories: The category of each operator, in order.
        path: The file, replaced at once.
        title: The run and its environment.
    """
    with figure_in(path, (10.4, 5.2)) as figure:
        plot_diagnosis(figure, parts, categories, title)


def plot_diagnosis(
    figure: Any, parts: Mapping[str, Diagnosis], categories: Mapping[str, str], title: str
) -> None:
    """Plots what `draw_diagnosis` draws; of two parts the first is pale."""
    left, right = figure.subplots(1, 2, width_ratios=(5, 4))
    height, shades = 0.8 / len(parts), (1.0,) if len(parts) == 1 else (0.45, 1.0)
    places = [height * (k - (len(parts) - 1) / 2) for k in range(len(parts))]
    rows = ("failed rollouts", "groups without\na success", "actions of\nfailed rollouts")
    classes = dict(zip(CLASS_COLORS, ("Execution", "Evidence", "Validity", "Other"), strict=True))
    for (words, each), shade, place in zip(parts.items(), shades, places, strict=True):
        for row, share in enumerate((each.failure_rate, each.success_free_groups)):
            left.barh(row + place, share, 0.9 * height, color=tinted(INK, shade))
            left.text(share + 0.01, row + place, f"{share:.0%}  {words}", va="center", fontsize=8)
        start = 0.0
        for color, name in classes.items():
            share = each.classes[name]
            label = name if shade == 1.0 else None
            tint = tinted(color, shade)
            left.barh(2 + place, share, 0.9 * height, start, color=tint, label=label)
            if share > 0.05:
                middle = start + share / 2
                ink = "white" if shade == 1.0 and color in (EXECUTION, TRAIN) else INK
                style = {"ha": "center", "va": "center", "fontsize": 8, "color": ink}
                left.text(middle, 2 + place, f"{share:.0%}", **style)
            start += share
        values = [each.fired.get(name, 0.0) for name in categories]
        tints = [tinted(CATEGORY_COLORS[categories[name]], shade) for name in categories]
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
    _label_operators(right, parts, categories)
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


def _label_operators(
    axis: Any, parts: Mapping[str, Diagnosis], categories: Mapping[str, str]
) -> None:
    """Writes the category at the right of its operators, and 0% where an operator never fired."""
    kinds = list(categories.values())
    for category in dict.fromkeys(kinds):
        rows = [row for row, kind in enumerate(kinds) if kind == category]
        axis.text(
            1.01,
            float(np.mean(rows)),
            category.capitalize(),
            transform=axis.get_yaxis_transform(),
            color=CATEGORY_COLORS[category],
            rotation=-90,
            va="center",
        )
    for row, name in enumerate(categories):
        if not any(round(each.fired.get(name, 0.0), 3) for each in parts.values()):
            axis.text(0.002, row, "0%", va="center", fontsize=8)
