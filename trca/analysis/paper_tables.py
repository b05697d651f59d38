"""Tables of results in the paper's form: one row per method, one column per task type."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, Final

from trca.common import strict_yaml
from trca.common.markdown import markdown_table
from trca.runs import STOPPED
from trca.runs.folder import RunFolder
from trca.runs.reports import read_evaluation
from trca.tune_configs.files import map_texts, parse
from trca.tune_configs.run_parameters import RunParameters, method_name

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

_NEVER_METHOD: Final = (RunParameters.model_fields.keys() - {"env", "env_config"}) | {
    *("algorithm", "model"),
    *("engine_config", "gradient_checkpointing", "micro_batch_tokens"),
    *("sharding", "sync_each_pass", "torch_threads"),
}
"""Settings of seed, machine and bookkeeping, and settings with a separate place in a table."""
_GAMES: Final = frozenset({"games", "catalogue", "questions"})
"""Arguments of environments that choose the tasks."""


@dataclass(frozen=True)
class Result:
    """The final result of a run.

    Attributes:
        environment: The environment without version, such as ``ALFWorld``.
        method: The algorithm, the credit rule of a user's file, and the values of the
            distinguishing settings.
        by: The distinguishing settings by name.
        cells: Percentages by column.
        panel: Hash of the evaluated panel of ``tasks`` tasks.
        metrics: The run's metrics, one row per iteration.
        settings: The settings that must agree in all runs of a method.
        repeat: Seed, start model and games. Two runs of a method differ in one of them.
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
    repeat: dict[str, Any] = field(repr=False)
    path: Path


@dataclass(frozen=True)
class Table:
    """Results on one environment with one model.

    Attributes:
        rows: Values of the runs in percent, by method and column.
        paper: Mean and, if published, standard deviation, by method of the paper and column.
        paper_model: The model of the paper's rows.
        same_panels: Whether the runs of all methods were measured on the same panels.
    """

    environment: str
    model: str
    columns: tuple[str, ...]
    rows: dict[str, dict[str, list[float]]]
    paper: dict[str, dict[str, list[float]]]
    paper_model: str
    same_panels: bool = True


def read_run(name: str, root: Path | str, by: Sequence[str] = ()) -> Result:
    """Reads the final result of a run, by its name or path.

    The values of the settings ``by`` become part of the method's name.

    Raises:
        ConfigError: If the run does not exist.
        ValueError: If the run is not finished, or lacks a setting of ``by``.
    """
    folder = RunFolder.open_run(name, root)
    path = folder.path / "evaluation.json"
    if not path.is_file():
        raise ValueError(f"{folder.path} has no evaluation.json: resume the run to its end first")
    refuse_unfinished(folder)
    report, config = read_evaluation(path), folder.read_config()
    environment = re.sub(r"-v\d+$", "", re.split("[/:]", str(config["env"]))[-1])
    cells = _cells(environment, report["rows"])
    if not cells:
        raise ValueError(f"no episode in {path} is finished: leave {folder.path} out")
    words = [method_name(config)]
    if config.get("ablation") not in (None, "none"):
        words.append(str(config["ablation"]))
    distinct: dict[str, Any] = {}
    for key in by:
        value: Any = config
        for part in key.split("."):
            if not isinstance(value, Mapping) or part not in value:
                raise ValueError(f"{folder.path} has no setting {key!r}: use another --by")
            value = value[part]
        distinct[key] = value
        words.append(f"{key}={_brief(value)}")
    return Result(
        environment,
        Path(str(config["model"])).name,
        " ".join(words),
        distinct,
        cells,
        report["panel"]["hash"],
        report["tasks"],
        folder.metrics(),
        _settings(folder),
        {
            "seed": config.get("seed"),
            "model": config["model"],
            **{key: value for key, value in config["env_config"].items() if key in _GAMES},
        },
        folder.path,
    )


def _brief(value: Any) -> str:
    """A setting's value without spaces; a mapping of numbers such as budgets is ``0.1/0.5/0.5``."""
    if isinstance(value, Mapping):
        numbers = all(isinstance(each, (int, float)) for each in value.values())
        parts = value.values() if numbers else (f"{k}:{_brief(v)}" for k, v in value.items())
        return ("/" if numbers else ",").join(map(str, parts))
    return str(value).replace(" ", "")


def refuse_unfinished(folder: RunFolder) -> None:
    """Raises a `ValueError` for a run without an evaluation of its last iteration.

    A sweep stopped the run early, or the last iteration is not trained or not evaluated.
    """
    if stopped := folder.read_json(STOPPED):
        raise ValueError(
            f"{folder.path} was stopped early, after iteration {stopped['iteration']}: leave the"
            " run out"
        )
    rows, most = folder.metrics(), folder.read_config()["iterations"]
    report = read_evaluation(folder.path / "evaluation.json")
    last = min(rows[-1]["iteration"], report.get("iteration", most)) if rows else 0
    if last < most:
        raise ValueError(
            f"{folder.path} is not finished, it ends after iteration {last} of {most}: resume the"
            " run or leave it out"
        )


def _settings(folder: RunFolder) -> dict[str, Any]:
    """Returns the settings that must agree in all runs of a method; files by their hashes."""
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
    """Refuses runs of one method that differ in more than seed, tasks and machine, or in nothing.

    Raises a `ValueError` that names the runs and their different settings.
    """
    runs: dict[tuple[str, str, str], list[Result]] = {}
    for result in results:
        earlier = runs.setdefault((result.environment, result.model, result.method), [])
        earlier.append(result)
        other = earlier[0]
        left, right = other.settings, result.settings
        keys = sorted(key for key in left.keys() | right.keys() if left.get(key) != right.get(key))
        if keys:
            by = " ".join(f"--by {key}" for key in keys[:3])
            raise ValueError(
                f"{other.path} and {result.path} are not runs of the same method, they differ in"
                f" {', '.join(keys)}: distinguish them with {by}, or make separate reports"
            )
        if twice := [each for each in earlier[:-1] if each.repeat == result.repeat]:
            raise ValueError(
                f"{twice[0].path} and {result.path} are one trial: they have the same settings,"
                f" games and seed {result.repeat['seed']}. Name one of them"
            )


def tables(results: Sequence[Result], with_paper: bool = True) -> list[Table]:
    """Returns one table for each environment and model; refuses runs as `refuse_mixture` does."""
    refuse_mixture(results)
    made = []
    for environment, model in dict.fromkeys((r.environment, r.model) for r in results):
        rows: dict[str, dict[str, list[float]]] = {}
        panels: dict[str, list[str]] = {}
        for result in results:
            if (result.environment, result.model) == (environment, model):
                panels.setdefault(result.method, []).append(result.panel)
                for column, value in result.cells.items():
                    rows.setdefault(result.method, {}).setdefault(column, []).append(value)
        measured = list(dict.fromkeys(column for each in rows.values() for column in each))
        order = COLUMNS.get(environment, ())
        last = "average" if environment == "SearchQA" else "All"
        columns = [c for c in order if c in measured and c != last]
        columns += [c for c in measured if c not in order and c != last]
        paper_model, paper = _paper(environment, model) if with_paper else ("", {})
        made.append(
            Table(
                environment,
                model,
                (*columns, *([last] if last in measured else [])),
                rows,
                paper,
                paper_model,
                len({frozenset(each) for each in panels.values()}) == 1,
            )
        )
    return made


def as_markdown(table: Table) -> str:
    """Returns the table as Markdown, the best means in bold, the paper's rows marked."""
    lines = list[list[object]]()
    best = _best(table)
    for method, runs, cells in _rows(table):
        texts = []
        for column, values in cells.items():
            text = _cell(values, "-", "{:.1f} ({:.1f})")
            texts.append(f"**{text}**" if runs and method in best.get(column, ()) else text)
        name = method if runs else f"{method} {MARK}"
        lines.append([name, max(runs.values(), default=""), *texts])
    return markdown_table(["method", "runs", *table.columns], lines)


def as_latex(table: Table) -> str:
    """Returns the table as LaTeX with booktabs, standard deviations as subscripts."""
    lines = [
        f"\\begin{{tabular}}{{l {'c' * len(table.columns)}}}",
        "\\toprule",
        " & ".join(["Method", *(_tex(c) for c in table.columns)]) + " \\\\",
        "\\midrule",
    ]
    best = _best(table)
    for number, (method, runs, cells) in enumerate(_rows(table)):
        if number == len(table.rows):
            lines.append("\\midrule")
        texts = []
        for column, values in cells.items():
            text = _cell(values, "--", "{:.1f}$_{{({:.1f})}}$")
            bold = runs and method in best.get(column, ())
            texts.append(f"\\textbf{{{text}}}" if bold else text)
        name = _tex(method) if runs else f"{_tex(method)}$^\\dagger$"
        lines.append(" & ".join([name, *texts]) + " \\\\")
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}"]) + "\n"


def as_csv(table: Table) -> str:
    """Returns the table as CSV, one line per method and column."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["source", "method", "column", "mean", "standard_deviation", "runs"])
    for method, runs, cells in _rows(table):
        for column, values in cells.items():
            if values:
                mean, deviation = (*(f"{value:.2f}" for value in values), "")[:2]
                source = "ours" if runs else "paper"
                writer.writerow([source, method, column, mean, deviation, runs.get(column, "")])
    return text.getvalue()


def _rows(table: Table) -> Iterator[tuple[str, dict[str, int], dict[str, list[float]]]]:
    """Yields method, runs by column, and mean and deviation by column; the paper has no runs."""
    for method, cells in table.rows.items():
        runs = {column: len(values) for column, values in cells.items()}
        yield method, runs, {c: _mean_and_spread(cells.get(c, [])) for c in table.columns}
    for method, cells in table.paper.items():
        yield method, {}, {column: cells.get(column, []) for column in table.columns}


def official_hashes() -> set[str]:
    """Returns the hashes of the canonical panels of official tasks."""
    from trca.envs.panel import canonical_panels

    panels = canonical_panels().items()
    return {p.hash for name, p in panels if p.hash and not name.startswith("embedded-")}


def _paper(environment: str, model: str) -> tuple[str, dict[str, dict[str, list[float]]]]:
    """Returns the paper's rows for a model; for an unknown model, the smallest model's rows."""
    text = resources.files(__package__).joinpath("paper_tables.yaml").read_text("utf-8")
    published: dict[str, Any] = strict_yaml.parse(text)
    models = published.get(environment, {})
    trained = [name for name in models if name.startswith("Qwen")]
    if not trained:
        return "", {}
    name = model if model in trained else trained[0]
    return name, models[name]


def _cells(environment: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Returns percentages by column, from the rows of an evaluation."""
    of = {row["task_type"]: row for row in rows if row["n"]}
    if environment == "WebShop":
        total = of.get("All")
        if total is None:
            return {}
        # A report has no score where all scores are equal to success.
        score = total["measures"].get("score", total["mean"])
        return {"score": 100 * score, "success": 100 * total["mean"]}
    cells = {name: 100 * row["mean"] for name, row in of.items()}
    if environment == "SearchQA" and (total := cells.pop("All", None)) is not None:
        cells["average"] = fmean(cells.values()) if cells else total
    return cells


def _mean_and_spread(values: Sequence[float]) -> list[float]:
    if not values:
        return []
    return [fmean(values), stdev(values)] if len(values) > 1 else [fmean(values)]


def _best(table: Table) -> dict[str, set[str]]:
    """Returns the methods with the best rounded mean of each column, given the same panels."""
    if len(table.rows) < 2 or not table.same_panels:
        return {}
    best = {}
    for column in table.columns:
        rows = table.rows.items()
        means = {m: round(fmean(cells[column]), 1) for m, cells in rows if cells.get(column)}
        if means:
            best[column] = {m for m, mean in means.items() if mean == max(means.values())}
    return best


def _cell(values: Sequence[float], empty: str, both: str) -> str:
    """The text of a mean, or of a mean and its deviation."""
    if len(values) < 2:
        return f"{values[0]:.1f}" if values else empty
    return both.format(*values)


def _tex(text: str) -> str:
    return text.translate({ord(c): f"\\{c}" for c in "&%$#_{}"} | {ord("\\"): "\\textbackslash{}"})
