"""Names in pictures: labels at the ends of lines, ticks without keys, lines that coincide."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

SYMBOLS: Final = {"lambda_": "λ"}
"""Symbols of the paper, by the setting's name."""

COINCIDING: Final = 0.015
"""Largest distance of two curves, as a share of the axis, that a reader sees as one line."""


def symbol(setting: str) -> str:
    """The paper's symbol of a setting, or the setting's name."""
    return SYMBOLS.get(setting, setting)


def label_names(names: Sequence[str]) -> tuple[str, list[str]]:
    """The key that all names share, and a label for each name.

    Names ``anchor=context`` and ``anchor=observation`` have the key ``anchor`` and the labels
    ``context`` and ``observation``. Other names have no common key; ``key=value`` in them becomes
    ``key value``.

    Args:
        names: Names of settings, ``key=value`` or any words.
    """
    pairs = [re.fullmatch(r"([\w.]+)=(.*)", name) for name in names]
    keys = {pair[1] for pair in pairs if pair}
    if len(keys) == 1 and all(pairs) and not any("=" in pair[2] for pair in pairs if pair):
        return symbol(keys.pop()), [pair[2] for pair in pairs if pair]
    plain = [re.sub(r"([\w.]+)=", lambda key: f"{symbol(key[1])} ", name) for name in names]
    return "", [re.sub(r" {2,}", "; ", name) for name in plain]


def wrap_label(label: str, width: int) -> str:
    """A label for a tick, broken into lines of at most ``width`` characters where it has a gap."""
    return "\n".join(textwrap.wrap(label, width, break_long_words=False))


def label_lines(
    axis: Any, ends: Sequence[float], labels: Sequence[str], colors: Sequence[Any], size: float
) -> None:
    """Writes each label at the right of the axis, level with the end of its line.

    Labels of close ends move apart; a short line joins a label and its end.

    Args:
        axis: The axis, with its final vertical limits.
        ends: Height of each line at its end, in data units.
        labels: The words.
        colors: Colours of the lines.
        size: Size of the font in points.
    """
    low, high = axis.get_ylim()
    height = axis.figure.get_figheight() * 72 * 0.7
    places = spread(ends, 1.3 * size / height * (high - low), high)
    beside = axis.get_yaxis_transform()
    for end, place, label, color in zip(ends, places, labels, colors, strict=True):
        join: dict[str, Any] = {"color": color, "linewidth": 0.8, "clip_on": False}
        axis.plot([1.0, 1.025], [end, place], transform=beside, **join)
        text: dict[str, Any] = {"color": color, "va": "center", "fontsize": size}
        axis.text(1.035, place, label, transform=beside, **text)


def spread(values: Sequence[float], gap: float, top: float) -> list[float]:
    """Values moved apart until neighbours differ by ``gap``, in the same order, below ``top``."""
    order = np.argsort(values, kind="stable")
    places = np.array(values, dtype=float)[order]
    for _ in range(200):
        close = np.flatnonzero(np.diff(places) < 0.999 * gap)
        if not len(close):
            break
        for lower in close:
            middle = (places[lower] + places[lower + 1]) / 2
            places[lower], places[lower + 1] = middle - gap / 2, middle + gap / 2
    places += min(0.0, top - places[-1]) if len(places) else 0.0
    moved = np.empty_like(places)
    moved[order] = places
    return [float(place) for place in moved]


def coinciding(curves: Mapping[str, NDArray[np.float64]]) -> list[str]:
    """Sentences that name the lines which lie on each other over their common length.

    Args:
        curves: Heights of each line as shares of the axis, by its label.
    """
    groups: list[list[str]] = []
    for label, curve in curves.items():
        for group in groups:
            if all(_distance(curve, curves[each]) <= COINCIDING for each in group):
                group.append(label)
                break
        else:
            groups.append([label])
    return [f"lines of {', '.join(group)} coincide" for group in groups if len(group) > 1]


def _distance(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    length = min(len(one), len(other))
    return float(np.abs(one[:length] - other[:length]).max()) if length > 1 else np.inf
