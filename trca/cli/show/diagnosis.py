"""A diagnosis in the terminal and as a picture: transition classes and operators that fired."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from trca.cli.show.console import console, percent, print_folded
from trca.cli.show.figures import tinted
from trca.runs.curve import EXECUTION, FOUNDATION, HELD_OUT, INK, TRAIN
from trca.runs.success_tables import terminal_table

if TYPE_CHECKING:
    from trca.analysis.diagnosis import Diagnosis
    from trca.analysis.llm_labels import Agreement

CLASS_COLORS: Final = (EXECUTION, TRAIN, FOUNDATION, "#c3cad1")
"""Colours of Execution, Evidence, Validity and Other."""
CATEGORY_COLORS: Final = {"execution": EXECUTION, "evidence": TRAIN, "invalidity": HELD_OUT}


def print_diagnosis(parts: Mapping[str, Diagnosis], categories: Mapping[str, str]) -> None:
    """Prints ratios and operators of a diagnosis, a column for each part of the run.

    ``categories`` has the category of each operator.
    """
    each = list(parts.values())
    ratios = terminal_table("", *parts)
    ratios.add_row("rollouts", *(f"{d.rollouts:,} in {d.groups:,} groups" for d in each))
    for words, name in (
        ("failed rollouts", "failure_rate"),
        ("groups without a success", "success_free_groups"),
        ("useful transitions in failed rollouts", "useful_transitions"),
    ):
        ratios.add_row(words, *(percent(getattr(d, name)) for d in each), style="bold")
    for kind in each[0].classes:
        ratios.add_row(f"  {kind}", *(percent(d.classes[kind]) for d in each))
    ratios.add_row("responses with an action", *(percent(d.parsed) for d in each))
    ratios.add_row("actions carried out", *(percent(d.accepted) for d in each))
    console.print(ratios, soft_wrap=False)
    fired = terminal_table("operator fired, share of all steps", *parts)
    for category in dict.fromkeys(categories.values()):
        fired.add_row(category, style="bold")
        for name in (n for n in categories if categories[n] == category):
            fired.add_row(f"  {name}", *(percent(d.fired.get(name, 0.0)) for d in each))
    console.print(fired, soft_wrap=False)


def print_agreement(agreed: Agreement, model: str) -> None:
    """Prints how the labels of a model agree with the operators."""
    columns = [f"model: {name}" for name in agreed.confusion]
    table = terminal_table("operators say", *columns, "kappa")
    for name, row in agreed.confusion.items():
        table.add_row(name, *map(str, row.values()), f"{agreed.kappas[name]:.2f}")
    console.print(table, soft_wrap=False)
    unread = f"; {agreed.unlabelled} replies could not be read" if agreed.unlabelled else ""
    print_folded(
        f"{model} and the operators agree on {agreed.agreement:.1%} of {agreed.labelled}"
        f" transitions of failed rollouts, Cohen's kappa {agreed.kappa:.2f}; useful are"
        f" {agreed.useful['operators']:.1%} by the operators and {agreed.useful['model']:.1%} by"
        f" the model{unread}.",
        indent=0,
    )


def plot_diagnosis(
    figure: Any, parts: Mapping[str, Diagnosis], categories: Mapping[str, str], title: str
) -> None:
    """Plots failures, transitions of failed rollouts, and operators that fired, by category.

    ``parts`` are one or two diagnoses, by the name of their iterations; of two the first is pale.
    """
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
                ink = "white" if shade == 1.0 and color in (EXECUTION, TRAIN) else INK
                style = {"ha": "center", "va": "center", "fontsize": 8, "color": ink}
                left.text(start + share / 2, 2 + place, f"{share:.0%}", **style)
            start += share
        values = [each.fired.get(name, 0.0) for name in categories]
        tints = [tinted(CATEGORY_COLORS[categories[name]], shade) for name in categories]
        right.barh(np.arange(len(values)) + place, values, 0.9 * height, color=tints)
    left.set_yticks(range(3), rows)
    left.set_xlim(0, 1.0)
    left.set_xlabel("share")
    left.set_title("How scarce is success, and what is left?", loc="left", fontsize=10)
    left.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=4)
    right.set_yticks(range(len(categories)), list(categories), fontsize=8)
    right.set_xlabel("share of all steps")
    right.set_title("Steps on which an operator fired", loc="left", fontsize=10)
    kinds = list(categories.values())
    for category in dict.fromkeys(kinds):
        middle = float(np.mean([row for row, kind in enumerate(kinds) if kind == category]))
        style = {"color": CATEGORY_COLORS[category], "rotation": -90, "va": "center"}
        beside = right.get_yaxis_transform()
        right.text(1.01, middle, category.capitalize(), transform=beside, **style)
    for row, name in enumerate(categories):
        if not any(round(each.fired.get(name, 0.0), 3) for each in parts.values()):
            right.text(0.002, row, "0%", va="center", fontsize=8)
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
