"""``trca compare``: two evaluations of the same tasks, task by task."""

from __future__ import annotations

from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from trca.cli.show.console import console, refusing

if TYPE_CHECKING:
    from trca.analysis.comparison import Paired

_WHAT: Final = "The JSON file of an evaluation; or a run, for its last evaluation."


def compare(
    first: Annotated[str, typer.Argument(metavar="A", help=_WHAT)],
    second: Annotated[str, typer.Argument(metavar="B", help=_WHAT)],
    output: Annotated[Path | None, typer.Option(help="File for the comparison, as JSON.")] = None,
) -> None:
    """Compare two evaluations task by task: the difference of success and its uncertainty.

    Both evaluations must have the same panel hash. The tasks are the unit: differences are paired
    by task, with a 95% bootstrap interval over tasks and an exact sign test.

    - `trca compare outputs/grpo outputs/quickstart` compares the last evaluations of two runs
    - `trca compare outputs/grpo/evaluation_A.json outputs/quickstart/evaluation_B.json`

    `trca train outputs/quickstart/config.yaml --algorithm GRPO --set lr=2e-4 --name grpo` makes
    the second run.
    """
    from dataclasses import asdict

    from trca.analysis.comparison import pair, read_report
    from trca.common.files import write_json

    with refusing():
        reports = [read_report(name) for name in (first, second)]
        paths = [Path(report["path"]).resolve() for report in reports]
        if paths[0] == paths[1]:
            raise ValueError(f"A and B are the same evaluation, {paths[0]}: name two")
        rows = pair(*reports)
    _print(rows, reports)
    if output:
        data = {"first": reports[0]["path"], "second": reports[1]["path"]}
        data |= {"panel": reports[0]["panel"], "rows": [asdict(row) for row in rows]}
        with refusing(OSError):
            write_json(output, data)
        console.print(f"Written to {output}", markup=False)


def _print(rows: list[Paired], reports: list[dict[str, Any]]) -> None:
    from trca.analysis.comparison import trajectories
    from trca.runs.success_tables import terminal_table

    panel = reports[0]["panel"]
    title = f"{panel['environment']} {panel['split']}, {rows[0].tasks} tasks in both"
    console.print(title, markup=False, style="bold")
    for name, report in zip("AB", reports, strict=True):
        missing = sum(outcome["won"] is None for outcome in report["outcomes"])
        note = f" ({missing} episodes missing)" if missing else ""
        console.print(f"{name}: {report.get('policy', report['path'])}{note}", markup=False)
    trained = [trajectories(report) for report in reports]
    if None not in trained and trained[0] != trained[1]:
        console.print(
            f"note: A has {trained[0]:,} training trajectories and B has {trained[1]:,}: the"
            " difference may come from the length of training",
            style="yellow",
        )
    for measure in dict.fromkeys(row.measure for row in rows):
        counts = ("better", "worse", "p")
        table = terminal_table(measure, "tasks", "A", "B", "B - A", "95% interval", *counts)
        for row in rows:
            if row.measure == measure:
                table.add_row(*_cells(row), style="bold" if row.task_type == "All" else "")
        console.print(table, soft_wrap=False)
    console.print(
        "A task counts once, with the mean of its episodes. better, worse: tasks on which B is"
        " ahead or behind; p: the exact sign test of the two counts.",
        style="dim",
    )


def _cells(row: Paired) -> tuple[str, ...]:
    share = row.measure == "success"

    def number(value: float, sign: str = "") -> str:
        return f"{value:{sign}z.1%}" if share else f"{value:{sign}z.3f}"

    return (
        row.task_type,
        str(row.tasks),
        number(row.first),
        number(row.second),
        number(row.difference, "+"),
        f"{number(row.low, '+')} to {number(row.high, '+')}" if isfinite(row.low) else "-",
        str(row.better),
        str(row.worse),
        f"{row.p:.3f}",
    )
