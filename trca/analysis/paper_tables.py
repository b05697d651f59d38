"""Results of runs as the paper's tables: rows of methods, columns of task types, by environment."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, Final

from trca.common import strict_yaml
from trca.runs.folder import RunFolder
from trca.runs.names import STOPPED
from trca.runs.reports import read_evaluation
from trca.tune_configs.files import map_texts, parse
from trca.tune_configs.run_parameters import RunParameters

COLUMNS: Final = {
    "ALFWorld": ("Pick", "Look", "Clean", "Heat", "Cool", "Pick2", "All"),
    "WebShop": ("score", "success"),
    "SearchQA": (
        *("nq", "triviaqa", "popqa", "hotpotqa", "2wikimultihopqa", "musique", "bamboogle"),
        "average",
    ),
}
"""Columns of the paper's Tables 1 and 2, in order; ``Look`` is ours."""
MARK: Final = "†"
"""Marks the paper's numbers."""

_NEVER_METHOD: Final = RunParameters.model_fields.keys() - {"env_config"} | {"model"}
"""Settings of seed, machine and bookkeeping, and those that a table has a place for."""
_GAMES: Final = frozenset({"games", "catalogue", "questions"})
"""Arguments of environments that choose the tasks."""

Cell = Sequence[float]
"""Values of the runs, in percent; of the paper: mean and standard deviation over three seeds."""


@dataclass(frozen=True)
class Result:
    """What one run ended with.

    Attributes:
        environment: Its environment without version, such as ``ALFWorld``.
        model: The model trained.
        method: The algorithm, with what is asked to tell runs apart.
        by: What is asked to tell runs apart: settings by name.
        cells: Percentages by column.
        panel: Hash of the evaluated panel.
        tasks: Number of its tasks.
        metrics: The run's metrics, a row an iteration.
        settings: The settings that are the same in all runs of a method.
        path: Its folder.
    """

    environment: str
    model: str
    method: str
    by: dict[str, Any]
    cells: dict[str, float]
    panel: str
    tasks: int
    metrics: list[dict[str, Any]] = field(repr=False)
    settings: dict[str, Any] = field(repr=False)
    path: Path


@dataclass(frozen=True)
class Table:
    """Results on one environment with one model.

    Attributes:
        environment: The environment.
        model: The model.
        columns: Names of the columns.
        rows: By method and column: the values of its runs.
        paper: By method of the paper and column: mean, and standard deviation where it is told.
        paper_model: The model of the paper's rows.
    """

    environment: str
    model: str
    columns: tuple[str, ...]
    rows: dict[str, dict[str, list[float]]]
    paper: dict[str, dict[str, list[float]]]
    paper_model: str


def read_run(name: str, root: Path | str, by: Sequence[str] = ()) -> Result:
    """Reads what a run ended with.

    Args:
        name: The run.
        root: Folder that holds runs.
        by: Settings whose values are part of the method's name.

    Raises:
        ConfigError: When there is no such run.
        ValueError: When it has not ended, or lacks a setting of ``by``.
    """
    folder = RunFolder.open(name, root)
    path = folder.path / "evaluation.json"
    if not path.is_file():
        raise ValueError(f"{folder.path} has no evaluation.json: it has not ended; resume it first")
    refuse_unfinished(folder)
    report, config = read_evaluation(path), folder.read_config()
    environment = str(config["env"]).rpartition("/")[2].partition("-v")[0].rpartition(":")[2]
    cells = _cells(environment, report["rows"])
    if not cells:
        raise ValueError(f"no episode in {path} was finished: leave {folder.path} out")
    words = [str(config["algorithm"])]
    if config.get("ablation") not in (None, "none"):
        words.append(str(config["ablation"]))
    told: dict[str, Any] = {}
    for key in by:
        value: Any = config
        for part in key.split("."):
            if not isinstance(value, Mapping) or part not in value:
                raise ValueError(f"{folder.path} has no setting {key!r}: name another --by")
            value = value[part]
        told[key] = value
        words.append(f"{key}={value}")
    return Result(
        environment,
        Path(str(config["model"])).name,
        " ".join(words),
        told,
        cells,
        report["panel"]["hash"],
        report["tasks"],
        folder.metrics(),
        _settings(folder),
        folder.path,
    )


def refuse_unfinished(folder: RunFolder) -> None:
    """Refuses a run whose ``evaluation.json`` is not that of its end.

    Raises:
        ValueError: When a sweep stopped it early, or it has not come to its last iteration, or was
            killed before that was evaluated.
    """
    if stopped := folder.read_json(STOPPED):
        raise ValueError(
            f"{folder.path} was stopped early, after iteration {stopped['iteration']}: leave it out"
        )
    rows, most = folder.metrics(), folder.read_config()["iterations"]
    report = read_evaluation(folder.path / "evaluation.json")
    last = min(rows[-1]["iteration"], report.get("iteration", most)) if rows else 0
    if last < most:
        raise ValueError(
            f"{folder.path} has not ended, after iteration {last} of {most}: resume it, or leave"
            " it out"
        )


def _settings(folder: RunFolder) -> dict[str, Any]:
    """The settings that are the same in all runs of a method; copies of files by their hashes."""
    path = folder.path / "config.yaml"
    hashes = {name: about["sha256"] for name, about in folder.own_files().items()}

    def named(text: str) -> str:
        file, colon, part = text.partition(":")
        return f"{hashes.get(file, file)}{colon}{part}"

    config = parse(path.read_text("utf-8"), str(path))
    env = {f"env_config.{k}": v for k, v in config.pop("env_config", {}).items() if k not in _GAMES}
    kept = {key: value for key, value in config.items() if key not in _NEVER_METHOD}
    return {key: map_texts(value, named) for key, value in (kept | env).items()}


def refuse_mixture(results: Sequence[Result]) -> None:
    """Refuses runs of one method that differ in more than seed, games and machine.

    Raises:
        ValueError: Names two runs, and the settings they differ in.
    """
    first: dict[tuple[str, str, str], Result] = {}
    for result in results:
        other = first.setdefault((result.environment, result.model, result.method), result)
        one, two = other.settings, result.settings
        keys = sorted(key for key in one.keys() | two.keys() if one.get(key) != two.get(key))
        if keys:
            by = " ".join(f"--by {key}" for key in keys[:3])
            raise ValueError(
                f"{other.path} and {result.path} are no runs of one method, they differ in"
                f" {', '.join(keys)}: tell them apart with {by}, or report them apart"
            )


def tables(results: Sequence[Result], with_paper: bool = True) -> list[Table]:
    """One table for each environment and model.

    Raises:
        ValueError: When runs of one method differ in more than seed, games and machine.
    """
    refuse_mixture(results)
    made = []
    for environment, model in dict.fromkeys((r.environment, r.model) for r in results):
        own = [r for r in results if (r.environment, r.model) == (environment, model)]
        rows: dict[str, dict[str, list[float]]] = {}
        for result in own:
            for column, value in result.cells.items():
                rows.setdefault(result.method, {}).setdefault(column, []).append(value)
        found = list(dict.fromkeys(column for each in rows.values() for column in each))
        known = COLUMNS.get(environment, ())
        last = "average" if environment == "SearchQA" else "All"
        others = [c for c in found if c not in known and c != last]
        columns = [c for c in known if c in found and c != last] + others
        paper_model, paper = _paper(environment, model) if with_paper else ("", {})
        made.append(
            Table(
                environment,
                model,
                (*columns, *([last] if last in found else [])),
                rows,
                paper,
                paper_model,
            )
        )
    return made


def as_markdown(table: Table) -> str:
    """The table as Markdown; the best mean of each column is bold, the paper's rows are marked."""
    lines = [
        "| method | runs | " + " | ".join(table.columns) + " |",
        "|---|---:|" + "---:|" * len(table.columns),
    ]
    best = _best(table)
    for method, cells in table.rows.items():
        texts = []
        for column in table.columns:
            text = _words(cells.get(column, []))
            texts.append(f"**{text}**" if method in best.get(column, ()) else text)
        runs = max(map(len, cells.values()))
        lines.append(f"| {method} | {runs} | " + " | ".join(texts) + " |")
    for method, cells in table.paper.items():
        texts = [_paper_words(cells.get(column, [])) for column in table.columns]
        lines.append(f"| {method} {MARK} | | " + " | ".join(texts) + " |")
    return "\n".join(lines) + "\n"


def as_latex(table: Table) -> str:
    """The table as LaTeX with booktabs, standard deviations as subscripts."""
    lines = [
        f"\\begin{{tabular}}{{l {'c' * len(table.columns)}}}",
        "\\toprule",
        " & ".join(["Method", *(_tex(c) for c in table.columns)]) + " \\\\",
        "\\midrule",
    ]
    best = _best(table)
    for method, cells in table.rows.items():
        texts = []
        for column in table.columns:
            text = _tex_cell(_mean_and_spread(cells.get(column, [])))
            texts.append(f"\\textbf{{{text}}}" if method in best.get(column, ()) else text)
        lines.append(" & ".join([_tex(method), *texts]) + " \\\\")
    if table.paper:
        lines.append("\\midrule")
    for method, cells in table.paper.items():
        texts = [_tex_cell(cells.get(column, [])) for column in table.columns]
        lines.append(" & ".join([f"{_tex(method)}$^\\dagger$", *texts]) + " \\\\")
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}"]) + "\n"


def as_csv(table: Table) -> str:
    """The table as CSV: a line for each method and column."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["source", "method", "column", "mean", "standard_deviation", "runs"])
    for method, cells in table.rows.items():
        for column in table.columns:
            if values := cells.get(column):
                mean, *spread = _mean_and_spread(values)
                deviation = f"{spread[0]:.2f}" if spread else ""
                writer.writerow(["ours", method, column, f"{mean:.2f}", deviation, len(values)])
    for method, cells in table.paper.items():
        for column in table.columns:
            if told := cells.get(column):
                spread = told[1:]
                deviation = f"{spread[0]:.2f}" if spread else ""
                writer.writerow(["paper", method, column, f"{told[0]:.2f}", deviation, ""])
    return text.getvalue()


def official_hashes() -> set[str]:
    """Hashes of the canonical panels of official tasks."""
    from trca.envs.canonical import canonical_panels

    found = canonical_panels().items()
    return {p.hash for name, p in found if p.hash and not name.startswith("embedded-")}


@cache
def _paper_tables() -> dict[str, dict[str, dict[str, dict[str, list[float]]]]]:
    text = resources.files(__package__).joinpath("paper_tables.yaml").read_text("utf-8")
    read: dict[str, Any] = strict_yaml.parse(text)
    return read


def _paper(environment: str, model: str) -> tuple[str, dict[str, dict[str, list[float]]]]:
    """The paper's rows for a model; of another model those of its smallest one."""
    models = _paper_tables().get(environment, {})
    trained = [name for name in models if name.startswith("Qwen")]
    if not trained:
        return "", {}
    name = model if model in trained else trained[0]
    return name, models[name]


def _cells(environment: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Percentages by column out of the rows of an evaluation."""
    of = {row["task_type"]: row for row in rows if row["n"]}
    if environment == "WebShop":
        whole = of.get("All")
        if whole is None:
            return {}
        score = whole["measures"].get("score")
        told = {} if score is None else {"score": 100 * score}
        return {**told, "success": 100 * whole["mean"]}
    cells = {name: 100 * row["mean"] for name, row in of.items()}
    if environment == "SearchQA" and (whole := cells.pop("All", None)) is not None:
        cells["average"] = fmean(cells.values()) if cells else whole
    return cells


def _mean_and_spread(values: Sequence[float]) -> list[float]:
    if not values:
        return []
    return [fmean(values), stdev(values)] if len(values) > 1 else [fmean(values)]


def _best(table: Table) -> dict[str, set[str]]:
    """The methods with the best mean, as shown, of each column, where there are two or more."""
    if len(table.rows) < 2:
        return {}
    found = {}
    for column in table.columns:
        rows = table.rows.items()
        means = {m: round(fmean(cells[column]), 1) for m, cells in rows if cells.get(column)}
        if means:
            found[column] = {m for m, mean in means.items() if mean == max(means.values())}
    return found


def _words(values: Sequence[float]) -> str:
    return _paper_words(_mean_and_spread(values))


def _paper_words(told: Sequence[float]) -> str:
    if not told:
        return "-"
    return f"{told[0]:.1f} ({told[1]:.1f})" if len(told) > 1 else f"{told[0]:.1f}"


def _tex_cell(told: Sequence[float]) -> str:
    if not told:
        return "--"
    return f"{told[0]:.1f}$_{{({told[1]:.1f})}}$" if len(told) > 1 else f"{told[0]:.1f}"


def _tex(text: str) -> str:
    return text.translate({ord(c): f"\\{c}" for c in "&%$#_{}"} | {ord("\\"): "\\textbackslash{}"})
