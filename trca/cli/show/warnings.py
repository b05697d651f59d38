"""Warnings about a training run that learns nothing, from its rows of metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

LOW_PARSED_RATIO: Final = 0.8
"""Share of readable responses below which a run gets a warning."""
ITERATIONS_WITHOUT_SUCCESS: Final = 10
"""Iterations in a row without a successful rollout after which a run gets a warning."""


def training_warnings(rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Returns the warnings about the last iteration, by the name of the problem.

    Args:
        rows: Metrics of the iterations so far, in order; see `trca.algorithms.base.metrics`.
    """
    if not rows:
        return {}
    row = rows[-1]
    iteration, parsed = row["iteration"], row.get("parsed_ratio")
    warnings = {}
    if parsed is None and (missing := row.get("missing_rollouts")):
        warnings["no rollout"] = (
            f"iteration {iteration} has no rollout: all {missing:.0f} are missing for a technical"
            " reason, which failures.jsonl in the folder of the run names"
        )
    updated = row.get("ratio_mean", row.get("grad_norm"))  # Imitation has no ratio
    if parsed is not None and not updated:
        warnings["no action trained"] = (
            f"iteration {iteration} trained no action: {_why_untrained(row)}"
        )
    if parsed is not None and parsed < LOW_PARSED_RATIO:
        warnings["low parsed_ratio"] = (
            f"only {parsed:.0%} of the responses contain a readable action (parsed_ratio): the"
            " model does not write the response format, or max_new_tokens cuts its responses off."
            " trca inspect RUN --rollout 0 shows them; docs/troubleshooting.md names the settings"
        )
    last = [each.get("success_rate") for each in rows[-ITERATIONS_WITHOUT_SUCCESS:]]
    if len(last) == ITERATIONS_WITHOUT_SUCCESS and all(rate == 0 for rate in last):
        warnings["no success"] = (
            f"no training rollout succeeded in the last {ITERATIONS_WITHOUT_SUCCESS} iterations:"
            " start from a better model, choose easier tasks or larger groups. trca diagnose RUN"
            " shows what the failed rollouts contain"
        )
    return warnings


def _why_untrained(row: Mapping[str, Any]) -> str:
    """The reason why an iteration trained no action."""
    if row["parsed_ratio"] == 0:
        return "no response contains a readable action"
    if row.get("frac_zero_advantage") == 1:
        return "every advantage is 0, since the rollouts of each group have the same outcome"
    return "no step entered the update; trca diagnose RUN shows the rollouts"
