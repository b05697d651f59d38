"""Metrics of updates: sums over the passes of a mini-batch, means over the mini-batches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields
from typing import Final

import numpy as np

from trca.algorithms.learner.losses import LossTerms
from trca.algorithms.learner.mismatch import MISMATCH_METRICS
from trca.algorithms.learner.reduction import Reduction
from trca.algorithms.learner.rows import Rows

_SUMS: Final = tuple(f.name for f in fields(LossTerms) if f.name != "ratio_max")
UPDATE_METRICS: Final = (
    *_SUMS,
    "ratio_max",
    "grad_norm",
    *MISMATCH_METRICS,
    "skipped_updates",
    "lr",
)
"""Names of the metrics of an update, logged by the module's id."""


class MinibatchSums:
    """The loss terms of the passes of one mini-batch, and the size of each pass.

    The terms stay on their device until `metrics`: reading a term earlier waits for the pass.
    """

    def __init__(self) -> None:
        """Begins without a pass."""
        self.terms: list[LossTerms] = []
        self._sizes: list[tuple[float, float, float]] = []

    def add_size(self, rows: Rows, factor: float, tokens: int) -> None:
        """Adds the weight of a pass, scaled by ``factor``, and its number of counted tokens."""
        weights = rows.weights * factor
        acting = float(weights[rows.holding(rows.action_mask)].sum())
        talking = float(weights[rows.holding(~rows.action_mask)].sum())
        self._sizes.append((acting, talking, float(tokens)))

    def metrics(self, reduction: Reduction) -> tuple[dict[str, float], int]:
        """Metrics of the mini-batch over all learners, and the number of counted tokens.

        Each mean is over the rows that have a token of the metric's kind; nan without such a row.
        """
        sums = np.zeros(len(_SUMS) + 3)
        for terms, size in zip(self.terms, self._sizes, strict=True):
            sums += [*(float(getattr(terms, name).detach()) for name in _SUMS), *size]
        total = reduction.numbers(sums)
        metrics = dict(zip(_SUMS, total.tolist(), strict=False))
        acting, talking = (float(weight) or math.nan for weight in total[-3:-1])
        for name in ("kl", "entropy", "clip_ratio", "ratio_mean", "approx_kl"):
            metrics[name] /= acting
        metrics["kl_format"] /= talking
        largest = max([float(t.ratio_max) for t in self.terms], default=0.0)
        metrics["ratio_max"] = float(reduction.numbers([largest], largest=True)[0])
        return metrics, int(total[-1])


def mean_of(values: Sequence[float]) -> float:
    """The mean of the values that are not nan; nan without such a value."""
    known = [value for value in values if not math.isnan(value)]
    return float(np.mean(known)) if known else math.nan


def mean_metrics(
    updates: Sequence[dict[str, float]], mismatch: dict[str, float], lr: float, skipped: int
) -> dict[str, float]:
    """`UPDATE_METRICS` of an iteration: means over the updates that have a value, or nan.

    ``updates`` has the metrics of the mini-batches with a counted token, ``mismatch`` has
    `MISMATCH_METRICS`, ``lr`` is the learning rate of the last update.
    """
    means = dict.fromkeys(UPDATE_METRICS, math.nan)
    if updates:
        means |= {name: mean_of([u[name] for u in updates]) for name in updates[0]}
        means["ratio_max"] = max(u["ratio_max"] for u in updates)
    return means | mismatch | {"lr": lr, "skipped_updates": float(skipped)}
