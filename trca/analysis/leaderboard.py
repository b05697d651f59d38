"""A page that ranks evaluations: one table for each panel of tasks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, Final

from trca.analysis.comparison import trajectories
from trca.runs.folder import RunFolder
from trca.runs.success_tables import ALL, Row
from trca.tune_configs.run_parameters import method_name

_HEAD: Final = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Leaderboard</title>
<style>
:root { --ink: #22313f; --quiet: #5b6875; --line: #d5dbe1; --page: #fff; --bar: #2a6f97;
  color-scheme: light dark; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e9ee; --quiet: #a3b0bc; --line: #3a4651; --page: #161c22; --bar: #6fb3d9; } }
body { max-width: 1100px; margin: 24px auto; padding: 0 20px; background: var(--page);
  color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
h2 { margin: 32px 0 0; font-size: 18px; } p { margin: 4px 0 8px; color: var(--quiet); }
div { overflow-x: auto; } table { border-collapse: collapse; width: 100%; }
th, td { padding: 6px 12px; border-bottom: 1px solid var(--line); text-align: right;
  white-space: nowrap; font-variant-numeric: tabular-nums; }
th { font-size: 13px; } td:nth-child(2), th:nth-child(2), td:nth-child(3), th:nth-child(3)
  { text-align: left; } td:nth-child(2) { white-space: normal; overflow-wrap: anywhere; }
svg { width: 160px; height: 12px; color: var(--bar); vertical-align: middle; }
</style>
<h1>Leaderboard</h1>
<p>A table has the evaluations on one panel of tasks. Numbers of two tables do not compare. In
brackets: the 95% interval over tasks. Policies whose intervals overlap may be equal.</p>
"""
_COLUMNS: Final = ("", "policy", "rule", "success", "", "episodes", "trajectories", "panel")


def leaderboard(reports: Iterable[Mapping[str, Any]]) -> str:
    """The page, as HTML, of evaluations that `trca.analysis.comparison.read_report` has read.

    Raises:
        ValueError: If an evaluation has no finished episode.
    """
    panels: dict[str, list[Mapping[str, Any]]] = {}
    for report in sorted(reports, key=lambda report: (*_place(report), -_total(report)[0])):
        panels.setdefault(report["panel"]["hash"], []).append(report)
    return _HEAD + "".join(map(_table, panels.values()))


def _place(report: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(report["panel"][key] for key in ("environment", "split", "hash"))


def _total(report: Mapping[str, Any]) -> tuple[float, Row]:
    """Success on all tasks, and the row with its interval."""
    row = next((Row(**row) for row in report["rows"] if row["task_type"] == ALL), None)
    if row is None or row.mean is None:
        raise ValueError(f"{report['path']} has no finished episode: leave it out")
    return row.mean, row


def _table(reports: Sequence[Mapping[str, Any]]) -> str:
    panel, tasks = reports[0]["panel"], reports[0]["tasks"]
    heads = "".join(f"<th>{name}" for name in _COLUMNS)
    rows = []
    for number, report in enumerate(reports, start=1):
        success, row = _total(report)
        low, high = 100 * row.low, 100 * row.high
        trained = trajectories(report)
        missing = f", {row.missing} missing" if row.missing else ""
        cells = (
            str(number),
            escape(str(report.get("policy") or Path(report["path"]).parent.name)),
            escape(_rule(report)),
            f"{success:.1%} ({low:.1f} to {high:.1f})",
            f'<svg viewBox="0 0 100 12" preserveAspectRatio="none" fill="currentColor"><rect'
            f' x="{low:.1f}" y="5" width="{high - low:.1f}" height="2"/><rect'
            f' x="{100 * success - 1:.1f}" y="0" width="2" height="12"/></svg>',
            f"{row.n}{missing}",
            "-" if trained is None else f"{trained:,}",
            f"<code>{escape(report['panel']['hash'][:8])}</code>",
        )
        rows.append("<tr>" + "".join(f"<td>{cell}" for cell in cells))
    title = f"{escape(panel['environment'])} {escape(panel['split'])}"
    about = f"{tasks} tasks, panel <code>{escape(panel['hash'])}</code>"
    lines = "\n".join(rows)
    return f"<h2>{title}</h2>\n<p>{about}</p>\n<div><table>\n<tr>{heads}\n{lines}\n</table></div>\n"


def _rule(report: Mapping[str, Any]) -> str:
    """The training method; a dash for a policy that no run trained, and for a file on its own."""
    if "iteration" in report:  # the final evaluation of a run
        run = RunFolder(Path(report["path"]).parent)
        return method_name(run.read_config()) if (run.path / "config.yaml").is_file() else "-"
    return method_name(report["settings"]) if "selection" in report else "-"
