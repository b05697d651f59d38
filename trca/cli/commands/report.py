"""``trca report``: runs as the paper's tables and figures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from trca.cli.run.new_settings import RunsOption
from trca.cli.show.console import console, refusing, use_one_thread

if TYPE_CHECKING:
    from trca.analysis.paper_tables import Result, Table

FEW_TASKS: Final = 50
"""Panels with fewer tasks get a warning next to the paper's numbers."""


def report(
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", help="Finished runs.")],
    out: Annotated[Path, typer.Option("--output", help="Folder for tables and figures.")] = Path(
        "report"
    ),
    by: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY", help="A setting that distinguishes methods, such as lambda_; repeatable."
        ),
    ] = None,
    paper: Annotated[
        bool, typer.Option(help="Add the numbers of the paper, marked with a dagger.")
    ] = True,
    leaderboard: Annotated[
        bool,
        typer.Option(
            "--leaderboard", help="Rank evaluations on one page; RUN may be a file of one."
        ),
    ] = False,
    storage_path: RunsOption = "outputs",
) -> None:
    """Write tables and figures of runs as in the paper: one table per environment and model.

    Runs that differ only in seed, games or machine form one row: mean, and standard deviation over
    runs. `--by` names every further difference. Numbers are from the end of a run, never from its
    peak. A run that has not ended, or that a sweep stopped early, is refused, and so is a second
    run with the same settings, games and seed. Tables come as Markdown, LaTeX and CSV, figures as
    PNG and SVG: learning curves, success at three budgets, by type of task as dots and as a radar,
    and over the numbers of a single `--by`.

    - `trca report outputs/quickstart outputs/grpo --output report`
    - `trca report outputs/lambda/trials/* --by lambda_ --no-paper`
    - `trca report outputs/*/evaluation*.json --leaderboard` writes `leaderboard.html` with policy,
      rule, success, interval and trajectories: one table for each panel hash
    """
    if leaderboard:
        write_leaderboard(runs, out)
        return
    use_one_thread()
    from trca.analysis.paper_tables import as_csv, as_latex, as_markdown, read_run, tables
    from trca.cli.show import figures
    from trca.common.files import write_text

    keys = by or []
    # A pattern such as trials/* names Ray Tune's files too.
    runs = [name for name in runs if not Path(name).is_file()] or runs
    with refusing():
        results = [read_run(name, storage_path, keys) for name in runs]
        paths = [result.path.resolve() for result in results]
        if twice := [path for number, path in enumerate(paths) if path in paths[:number]]:
            raise ValueError(f"{twice[0]} is named twice: name each run once")
        made = tables(results, paper)
        out.mkdir(parents=True, exist_ok=True)
    pages = ["# Results", ""]
    for table in made:
        name = f"{table.environment}_{table.model}".lower()
        group = [r for r in results if (r.environment, r.model) == (table.environment, table.model)]
        title = f"{table.environment}, {table.model}"
        caption = note(table, group)
        text = as_markdown(table)
        console.print(title, markup=False, style="bold")
        console.print(text, markup=False, soft_wrap=True)
        console.print(caption, markup=False, style="dim")
        write_text(out / f"{name}.tex", as_latex(table))
        write_text(out / f"{name}.csv", as_csv(table))
        metrics = {m: [r.metrics for r in group if r.method == m] for m in table.rows}
        figures.draw_comparison(metrics, out / f"{name}_curves.png", title, "", ("png", "svg"))
        drawn = ["curves"]
        playing = {
            method: runs
            for method, runs in metrics.items()
            if all(any(row.get("success_rate") is not None for row in rows) for rows in runs)
        }
        if playing:
            figures.draw_budgets(playing, out / f"{name}_budgets.png", title)
            drawn.append("budgets")
        if taught := [method for method in metrics if method not in playing]:
            caption = f"{caption} {', '.join(taught)}: a teacher plays the training episodes."
        kinds = [c for c in table.columns if c not in ("All", "average", "score", "success")]
        shares = {
            method: {k: [v / 100 for v in cells[k]] for k in kinds if k in cells}
            for method, cells in table.rows.items()
        }
        if len(kinds) > 1:
            figures.draw_types(shares, out / f"{name}_types.png", title)
            drawn.append("types")
        partial = [method for method, each in shares.items() if len(each) < len(kinds)]
        if len(kinds) > 2 and len(partial) < len(shares):
            figures.draw_radar(shares, out / f"{name}_radar.png", title)
            drawn.append("radar")
            if partial:
                caption = f"{caption} The radar leaves out {', '.join(partial)}: a type is missing."
        if over := over_setting(table, group):
            figures.draw_setting(over, keys[0], out / f"{name}_{keys[0]}.png", title)
            drawn.append(keys[0])
        pages += [f"## {title}", "", text, caption, ""]
        pages += [f"![{kind}]({name}_{kind}.svg)\n" for kind in drawn]
    write_text(out / "report.md", "\n".join(pages))
    console.print(f"Written to {out}: report.md, tables and figures", markup=False)


def write_leaderboard(names: Sequence[str], out: Path) -> None:
    """Writes the page of evaluations, by files or folders as in `trca compare`."""
    from trca.analysis.comparison import read_report
    from trca.analysis.leaderboard import leaderboard
    from trca.common.files import write_text

    with refusing():
        reports = {Path(report["path"]).resolve(): report for report in map(read_report, names)}
        page = leaderboard(reports.values())
        out.mkdir(parents=True, exist_ok=True)
        write_text(out / "leaderboard.html", page)
    console.print(f"Written to {out}: leaderboard.html", markup=False)


def over_setting(
    table: Table, results: Sequence[Result]
) -> dict[str, dict[float, list[float]]] | None:
    """Success by column and value of the setting of ``--by``, if this is a single number.

    None with fewer than three values, and if runs differ in further settings.
    """
    values = {r.method: list(r.by.values()) for r in results}
    if not all(len(v) == 1 and type(v[0]) in (int, float) for v in values.values()):
        return None
    numbers = {method: float(value) for method, (value,) in values.items()}
    if len(set(numbers.values())) < max(3, len(numbers)):
        return None
    return {
        column: {
            numbers[method]: [value / 100 for value in cells[column]]
            for method, cells in table.rows.items()
            if column in cells
        }
        for column in table.columns
        if column != "score"
    }


def note(table: Table, results: Sequence[Result]) -> str:
    """Describes the numbers and their tasks."""
    from trca.analysis.paper_tables import official_hashes
    from trca.runs.success_tables import wilson

    panels = dict.fromkeys(r.panel for r in results)
    tasks = sorted({r.tasks for r in results})
    words = f"{tasks[0]}" if len(tasks) == 1 else f"{tasks[0]} to {tasks[-1]}"
    shown = ", ".join(list(panels)[:4]) + (
        f" and {len(panels) - 4} more" if len(panels) > 4 else ""
    )
    parts = [
        "In percent: mean, and in brackets the standard deviation over runs.",
        f"Held-out panels of {words} tasks: {shown}.",
    ]
    if not table.same_panels:
        parts.append("The methods were measured on different panels, so none is marked as best.")
    if table.paper:
        other = "" if table.paper_model == table.model else ", another model"
        parts.append(
            f"† Numbers of the paper with {table.paper_model}{other}, with standard deviations over"
            " three seeds."
        )
        if not panels.keys() <= official_hashes():
            parts.append("It is unknown whether its tasks are the same.")
        if tasks[0] < FEW_TASKS:
            low, high = wilson(tasks[0] / 2, tasks[0])
            parts.append(
                f"Warning: with {tasks[0]} tasks, the 95% interval of a success rate is up to"
                f" {100 * (high - low):.0f} points wide: these numbers do not compare with the"
                " paper's."
            )
    return " ".join(parts)
