"""Compares all algorithms at equal trajectories, with panels as the unit of the statistics.

    python benchmarks/comparison.py --tune --panels 31 32              # selects settings
    python benchmarks/comparison.py --panels 41 42 43 44 45 46 --docs  # reports on further panels

A panel is a generator seed with a separate warm start, and also the seed of the run. Several seeds
on a single panel would hide the variance between panels. ``--tune`` runs the same number of trials
for each algorithm, and selects the trial with the highest mean training success. With
``--tuned-on embedded/alfworld`` another config runs with the settings selected there.

Every run is a separate ``trca train`` process with one thread; ``--side-by-side`` runs work at the
same time. A repeated command skips finished runs and resumes interrupted runs. The files
``tuned.json`` and ``runs.jsonl`` store the selected settings and the curves of finished runs; with
``--docs`` they are in ``benchmarks/results``.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import time
from collections import ChainMap
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any, Final

import numpy as np

from trca.algorithms import ALGORITHMS
from trca.cli.show.figures import draw_comparison
from trca.common.cache import digest
from trca.common.files import write_text
from trca.common.json_lines import append_lines, read_lines
from trca.common.markdown import markdown_table
from trca.runs.curve import column, moving_mean
from trca.runs.success_tables import half_width, over_tasks
from trca.tune_configs.files import read

ROOT: Final = Path(__file__).parents[1]
RESULTS: Final = ROOT / "benchmarks" / "results"
"""Settings and curves for the results pages; the name of a folder is the end of the config's."""
TAU2: Final = "examples/tau2_telecom/tau2.yaml"
COOKING: Final = "examples/textworld_express/cooking.yaml"
PANELS: Final = {
    "embedded/alfworld": "env_config.games=small-{}",
    "webshop": "env_config.catalogue=small-{}",
    "searchqa": "env_config.seed={}",
    TAU2: "env_config.panel={}",
    COOKING: "env_config.panel={}",
}
"""The setting of each config that selects the panel of a generator seed."""
COMMON: Final = {
    "num_env_runners": 0,
    "num_learners": 0,
    "evaluation_tasks": 64,
    "evaluation_rollouts": 4,
}
"""Settings of every run, except for panel and trial: 256 held-out episodes at the end."""
NO_ROW: Final = {
    *("IGPO", "StepSearch"),  # read gold answers or gold passages of a search
    *("ShapedReturn", "ShapedTurnPPO", "BEACON"),  # have other panels, in other sections
    "Imitation",  # has a teacher
}
"""Algorithms without a row by default."""
MEASURES: Final = ("training, mean (area)", "training, last 5", "held out, end")
"""Metrics of the comparison."""
SCORE: Final = "score, held out"
"""A further metric, for environments with partial scores."""
BUDGETS: Final = (0.3, 0.6, 1.0)
"""Shares for 1.92K, 3.84K and 6.40K of 6.40K trajectories (the paper's Figure 4)."""
DRAWN: Final = 6
"""Number of algorithms in the figure: the first algorithm, the baseline and the best ones."""
BASELINE: Final = "GRPO"

KEPT: Final = (
    "trajectories",
    "env_steps",
    "response_length",
    "success_rate",
    "score",
    "frac_zero_advantage",
    "seconds",
)
"""Stored metrics of every iteration, in addition to metrics of evaluations."""

Trial = Mapping[str, float | str]
Rows = list[dict[str, Any]]


def _budgets(scale: float) -> dict[str, float]:
    """Returns budgets in the proportion 1 : 5 : 5."""
    return {
        "budgets.evidence": scale,
        "budgets.invalidity": 5 * scale,
        "budgets.execution": 5 * scale,
    }


EXAMPLE_RATES: Final = {TAU2: (2e-4, 4e-4), COOKING: (4e-4, 2e-4)}
"""The rates of the examples' trials, for all algorithms."""
_RATES: Final = (2e-4, 4e-4, 8e-4, 1e-4)
"""Most algorithms are best at the smallest of the first three rates; the fourth is smaller."""
SCHEDULED: Final = "TRCA-scheduled"
"""TRCA with this project's extension: the budgets are multiplied by the group's failure rate."""
STAGES: Final = "TRCA-stages"
"""TRCA with this project's extension: returns end with the stage and are compared within it."""
LOW_GAMMA: Final = 0.6
"""A discount of step returns below the paper's 0.95."""
TO_GO: Final = "ShapedReturnToGo"
"""Discounted rewards of outcome and rubric, compared over all steps of the group."""
VARIANTS: Final[Mapping[str, tuple[str, str, Trial]]] = {
    SCHEDULED: ("TRCA", SCHEDULED, {}),
    STAGES: ("TRCA", STAGES, {}),
    "TRCA-0.6": ("TRCA", "TRCA", {"gamma": LOW_GAMMA}),
    "BEACON-0.6": ("BEACON", "BEACON", {"gamma": LOW_GAMMA}),
    "TRCA-plan": ("TRCA", SCHEDULED, {"response_format": "plan"}),
    "GRPO-plan": ("GRPO", "GRPO", {"response_format": "plan"}),
    "GiGPO-plan": ("GiGPO", "GiGPO", {"response_format": "plan"}),
    TO_GO: ("ShapedReturn", TO_GO, {}),
    "BEACON-walkthrough": (
        "BEACON",
        "BEACON",
        {"credit": "beacon_walkthrough", "gold_in_training": True},
    ),
}
"""Further rows: the algorithm, the row with its tuned settings, and additional settings.

With plans an algorithm starts from HiPER's warm start, and differs from HiPER only in the credit
rule.
"""
_OF_TRCA: Final[Sequence[Trial]] = [
    {"lr": 4e-4, **_budgets(0.1)},
    {"lr": 8e-4, **_budgets(0.1)},
    {"lr": 2e-4, **_budgets(0.1)},
    {"lr": 4e-4, **_budgets(0.5)},
]
OWN_TRIALS: Final[Mapping[str, Sequence[Trial]]] = {
    # Rules with the same information and the same budgets have the same trials.
    "TRCA": _OF_TRCA,
    "ShapedReturn": _OF_TRCA,
    TO_GO: [{**trial, "return_to_go": True} for trial in _OF_TRCA],
    # The two trials with constant budgets are also trials of TRCA. A scheduled trial was selected.
    SCHEDULED: [
        {"lr": 4e-4, **_budgets(0.1)},
        {"lr": 8e-4, **_budgets(0.1)},
        {"lr": 4e-4, **_budgets(0.5), "budget_schedule": "group_success"},
        {"lr": 2e-4, **_budgets(0.5), "budget_schedule": "group_success"},
    ],
    STAGES: [
        {"step_group": "stage", "gamma": gamma, "lr": lr, **_budgets(scale)}
        for gamma, lr, scale in (
            (LOW_GAMMA, 4e-4, 0.5),
            (LOW_GAMMA, 4e-4, 0.1),
            (0.3, 4e-4, 0.5),
            (LOW_GAMMA, 2e-4, 0.5),
        )
    ],
    # Success rises with the rate.
    "FilteredBC": [{"lr": lr} for lr in (2e-4, 4e-4, 8e-4, 1.6e-3)],
    # The default rate is for large models; with it a tiny critic learns nothing.
    **{name: [{"lr": lr, "critic_lr": 1e-3} for lr in _RATES] for name in ("TurnPPO", "HiPER")},
    # TurnPPO learns nothing at the larger rates.
    "ShapedTurnPPO": [
        {"lr": 2e-4, "critic_lr": 1e-3, **_budgets(0.1)},
        {"lr": 1e-4, "critic_lr": 1e-3, **_budgets(0.1)},
        {"lr": 2e-4, "critic_lr": 1e-3, **_budgets(0.5)},
        {"lr": 4e-4, "critic_lr": 1e-3, **_budgets(0.5)},
    ],
    # The public code divides by no deviation; TRCA's best rate is the second.
    "BEACON": [
        {"lr": 2e-4},
        {"lr": 4e-4},
        {"lr": 4e-4, "normalizer": "std"},
        {"lr": 4e-4, "milestones": "evidence_and_execution"},
    ],
}
"""Trials of algorithms with further tuned settings besides the learning rate."""


def trials(row: str, config: str) -> Sequence[Trial]:
    """Returns the trials of a row for ``--tune``: four, and two rates for the examples."""
    if config in EXAMPLE_RATES:
        more: Trial = {"return_to_go": True} if row == TO_GO else {}
        return [{"lr": lr, **more} for lr in EXAMPLE_RATES[config]]
    return OWN_TRIALS.get(row, [{"lr": lr} for lr in _RATES])


def variant(row: str) -> tuple[str, str, Trial]:
    """Returns the algorithm of a row, the row with its tuned settings, and additional settings."""
    return VARIANTS.get(row, (row, row, {}))


@dataclass(frozen=True)
class Job:
    """One training run.

    Attributes:
        config: The config.
        algorithm: The algorithm.
        trial: Settings that replace the config's settings.
        panel: Generator seed, and seed of the run.
        folder: Parent of the run folder.
        extra: Further assignments ``key=value``.
    """

    config: str
    algorithm: str
    trial: tuple[tuple[str, float | str], ...]
    panel: int
    folder: Path
    extra: tuple[str, ...] = ()

    @property
    def run(self) -> Path:
        """The run folder."""
        return self.folder / f"{self.algorithm.lower()}-panel{self.panel}-{digest(self.key)[:8]}"

    @property
    def settings(self) -> list[str]:
        """Assignments ``key=value`` that change the config."""
        return [
            f"seed={self.panel}",
            PANELS[self.config].format(self.panel),
            f"evaluation_interval={_iterations(self.config)}",
            *(f"{key}={value}" for key, value in (*COMMON.items(), *self.trial)),
            *self.extra,
        ]

    @property
    def key(self) -> tuple[str, ...]:
        """The identity of the run: content of the config, algorithm and settings."""
        return digest(read(self.config)), self.algorithm, *self.settings

    @property
    def finished(self) -> bool:
        """Whether the run is finished."""
        status = self.run / "status.json"
        return status.exists() and json.loads(status.read_text())["state"] == "finished"

    def command(self) -> list[str]:
        """Returns the command that starts or resumes the run."""
        trca = [sys.executable, "-m", "trca", "train"]
        if (self.run / "config.yaml").exists():
            return [*trca, "--resume", str(self.run)]
        return [
            *(*trca, self.config, "--algorithm", self.algorithm),
            *(part for setting in self.settings for part in ("--set", setting)),
            *("--storage-path", str(self.folder), "--name", self.run.name),
        ]

    def metrics(self) -> Rows:
        """Returns the run's rows of metrics."""
        return [json.loads(line) for line in (self.run / "metrics.jsonl").read_text().splitlines()]


@cache
def _iterations(config: str) -> int:
    """Returns the number of iterations of a config."""
    return int(read(config)["iterations"])


class Curves:
    """Curves of finished runs, in a file of JSON lines.

    Args:
        path: The file, created with the first curve.
    """

    def __init__(self, path: Path) -> None:
        self._lock = Lock()
        self._path = path
        self._runs: dict[tuple[str, ...], dict[str, Any]] = {
            (run["config_digest"], run["algorithm"], *run["settings"]): run
            for run in read_lines(path)
        }

    def __contains__(self, job: Job) -> bool:
        return job.key in self._runs

    def rows(self, job: Job) -> Rows:
        """Returns the stored metrics of a run."""
        run = self._runs[job.key]
        every = run["iterations"]
        rows = [
            dict(zip(every, values, strict=True)) for values in zip(*every.values(), strict=True)
        ]
        for number, evaluation in run["evaluations"].items():
            rows[int(number)] |= evaluation
        return rows

    def panel_hash(self, job: Job) -> str:
        """Returns the hash of the training panel of a run."""
        return str(self._runs[job.key]["panel_hash"])

    def commits(self, jobs: Sequence[Job]) -> list[str]:
        """Returns the commits of some runs; older curves have none."""
        every = (self._runs[job.key].get("commits", []) for job in jobs)
        return sorted({commit for of_run in every for commit in of_run})

    def add(self, job: Job) -> None:
        """Stores the metrics of a finished run for tables and figures."""
        rows = [
            {
                key: round(value, 6) if isinstance(value, float) else value
                for key, value in r.items()
            }
            for r in job.metrics()
        ]
        evaluations = {
            number: {key: value for key, value in row.items() if key.startswith("evaluation/")}
            for number, row in enumerate(rows)
        }
        run = {
            "config": job.config,
            "config_digest": job.key[0],
            "algorithm": job.algorithm,
            "settings": job.settings,
            "panel_hash": json.loads((job.run / "panels.json").read_text())["train"]["hash"],
            "commits": _commits(job.run),
            "iterations": {key: [row.get(key) for row in rows] for key in KEPT},
            "evaluations": {str(number): kept for number, kept in evaluations.items() if kept},
        }
        with self._lock:
            append_lines(self._path, [run])
            self._runs[job.key] = run


def _commits(run: Path) -> list[str]:
    """Returns the commits of a run, which a resumed run may have several of."""
    versions = json.loads((run / "versions.json").read_text())
    every = (*versions.get("earlier", ()), versions)
    return [each["commit"] for each in every if each.get("commit")]


def run_all(jobs: Sequence[Job], side_by_side: int, curves: Curves) -> None:
    """Runs the unfinished jobs, several at a time, and stores their curves."""
    for job in jobs:
        if job.finished and job not in curves:
            curves.add(job)
    waiting = [job for job in jobs if job not in curves]
    print(f"{len(jobs)} runs, {len(jobs) - len(waiting)} of them finished already", flush=True)

    def run(job: Job) -> None:
        job.folder.mkdir(parents=True, exist_ok=True)
        threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        start = time.monotonic()
        with (job.folder / f"{job.run.name}.log").open("ab") as log:
            done = subprocess.run(
                job.command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=ROOT,
                env={**os.environ, **threads},
            )
        if job.finished:
            curves.add(job)
        seconds = time.monotonic() - start
        print(f"{job.run.name}: exit {done.returncode} after {seconds:.0f} s", flush=True)

    with ThreadPoolExecutor(side_by_side) as pool:
        list(pool.map(run, waiting))
    if failed := [job for job in waiting if not job.finished]:
        logs = ", ".join(f"{job.run}.log" for job in failed)
        raise SystemExit(f"{len(failed)} runs failed; repeat the command to resume. See {logs}")


def reached(rows: Rows, level: float) -> float:
    """Returns the trajectories until the moving mean of training success reaches ``level``.

    NaN if the moving mean never reaches the level.
    """
    above = np.flatnonzero(moving_mean(column(rows, "success_rate")) >= level)
    return float(rows[above[0]]["trajectories"]) if len(above) else float("nan")


def measure(rows: Rows) -> dict[str, float]:
    """Returns the metrics of a run for the table."""
    success = column(rows, "success_rate")
    zero = column(rows, "frac_zero_advantage")
    last = rows[-1]
    return {
        "trajectories to 30%": reached(rows, 0.3),
        "to 50%": reached(rows, 0.5),
        "training, mean (area)": float(np.nanmean(success)),
        "training, last 5": float(np.nanmean(success[-5:])),
        "held out, end": float(last["evaluation/success_rate"]),
        SCORE: float(last["evaluation/score"]),
        "steps with advantage, first third": 1 - float(np.nanmean(zero[: len(rows) // 3 + 1])),
    }


def after(rows: Rows) -> dict[str, float]:
    """Returns training success, as mean of five iterations, after the shares `BUDGETS`."""
    smooth = moving_mean(column(rows, "success_rate"))
    places = [round(share * len(rows)) - 1 for share in BUDGETS]
    return {f"{int(rows[n]['trajectories']):,}": float(smooth[n]) for n in places}


def by_task_type(rows: Rows) -> dict[str, float]:
    """Returns the final held-out success of each task type."""
    last, start, end = rows[-1], "evaluation/task_types/", "/success_rate"
    return {
        name.removeprefix(start).removesuffix(end): float(value)
        for name, value in sorted(last.items())
        if name.startswith(start) and name.endswith(end)
    }


def cell(values: Sequence[float], count: bool) -> str:
    """Returns mean ± half-width over the panels with a value, and their number if some lack one."""
    numbers = [value for value in values if not np.isnan(value)]
    if not numbers:
        return "never"
    both = (float(np.mean(numbers)), half_width(numbers))
    mean, half = (f"{value:,.0f}" if count else f"{value:.1%}" for value in both)
    spread = f" ± {half}" if len(numbers) > 2 else ""
    return f"{mean}{spread}" + (
        f" ({len(numbers)} of {len(values)})" if len(numbers) < len(values) else ""
    )


def lead(first: Sequence[float], other: Sequence[float]) -> str:
    """Returns the mean difference in points, paired by panel, with 95% intervals.

    ± is half of the t interval; the brackets hold the bootstrap interval (percentile). The
    bootstrap interval is too narrow for few panels, and left out if all differences are equal.
    """
    differences = (100 * np.subtract(first, other)).tolist()
    low, high = over_tasks(differences)
    spread = f" ± {half_width(differences):.1f}" if len(differences) > 1 else ""
    interval = f" ({low:+z.1f} to {high:+z.1f})" if np.isfinite(low) else ""
    return f"{np.mean(differences):+z.1f}{spread}{interval}"


def table(runs: Mapping[str, Sequence[Rows]]) -> str:
    """Returns tables of the metrics, of the first algorithm's lead, and of success by task type.

    One or two panels have no table of the lead, because their intervals say nothing.
    """
    measured = {name: [measure(rows) for rows in panels] for name, panels in runs.items()}
    in_parts = any(m[SCORE] != m["held out, end"] for each in measured.values() for m in each)
    names = [n for n in next(iter(measured.values()))[0] if n != SCORE or in_parts]
    compared = [*MEASURES, *([SCORE] if in_parts else [])]
    lines = [
        [algorithm, *(cell([m[name] for m in each], name in names[:2]) for name in names)]
        for algorithm, each in measured.items()
    ]
    text = markdown_table(["", *names], lines)
    first, *others = measured
    if others and len(runs[first]) > 2:
        text += (
            f"\n{first} minus each row, paired by panel, in points, ± half of the 95% t interval"
            " (bootstrap interval over panels). Last column: share of the row's trajectories until"
            f" {first} has the row's final training success.\n\n"
        )
        text += markdown_table(
            [f"{first} minus", *compared, "at its end after"],
            [[other, *_leads(runs, measured, other, compared)] for other in others],
        )
    for about, part in (
        ("Success in training after 30%, 60% and all of the trajectories", after),
        ("Success on held-out episodes by type of task", by_task_type),
    ):
        values = {name: [part(rows) for rows in panels] for name, panels in runs.items()}
        # A held-out panel may lack a type.
        columns = list(dict.fromkeys(key for panel in values[first] for key in panel))
        lines = [
            [
                name,
                *(cell([panel.get(key, np.nan) for panel in each], count=False) for key in columns),
            ]
            for name, each in values.items()
        ]
        text += f"\n{about}:\n\n{markdown_table(['', *columns], lines)}"
    return text


def _leads(
    runs: Mapping[str, Sequence[Rows]],
    measured: Mapping[str, Sequence[Mapping[str, float]]],
    other: str,
    compared: Sequence[str],
) -> list[str]:
    """Returns the cells of the first algorithm's lead over another algorithm."""
    first = next(iter(runs))
    cells = [lead(*([m[n] for m in measured[a]] for a in (first, other))) for n in compared]
    shares = [
        reached(ours, measure(theirs)["training, last 5"]) / theirs[-1]["trajectories"]
        for ours, theirs in zip(runs[first], runs[other], strict=True)
    ]
    return [*cells, cell(shares, count=False)]


def drawn(runs: Mapping[str, Sequence[Rows]]) -> dict[str, Sequence[Rows]]:
    """Selects the first algorithm, GRPO and the algorithms of largest area for the figure."""
    first, *others = runs
    areas = {n: np.mean([np.nanmean(column(r, "success_rate")) for r in runs[n]]) for n in others}
    best = sorted(others, key=lambda name: (name != BASELINE, -areas[name]))[: DRAWN - 1]
    return {name: runs[name] for name in runs if name == first or name in best}


def origin(jobs: Sequence[Job], curves: Curves) -> str:
    """Describes the training panels by seed and hash, the hours and the commits of all runs."""
    hashes = {job.panel: curves.panel_hash(job) for job in jobs}
    hours = sum(float(np.nansum(column(curves.rows(job), "seconds"))) for job in jobs) / 3600
    panels = ", ".join(f"{panel} ({digest})" for panel, digest in hashes.items())
    commits = ", ".join(commit[:7] for commit in curves.commits(jobs))
    known = f" Commits: {commits}." if commits else ""
    return (
        f"Panels (generator seed, hash of the training panel): {panels}. {len(jobs)} runs,"
        f" {hours:.1f} hours.{known}\n"
    )


def tune(arguments: argparse.Namespace, folder: Path, results: Path) -> None:
    """Runs every trial on the tuning panels, and stores the best trial of each algorithm."""
    config, curves = arguments.config, Curves(results / "runs.jsonl")
    jobs = {
        (row, number): [
            Job(
                config,
                variant(row)[0],
                tuple(trial.items()),
                panel,
                folder / "tuning",
                arguments.set,
            )
            for panel in arguments.panels
        ]
        for row in arguments.algorithms
        for number, trial in enumerate(trials(row, config))
    }
    every = [job for each in jobs.values() for job in each]
    run_all(every, arguments.side_by_side, curves)
    lines, areas = list[list[str]](), dict[str, list[float]]()
    for (algorithm, number), each in jobs.items():
        measured = [measure(curves.rows(job)) for job in each]
        means = [float(np.mean([m[name] for m in measured])) for name in MEASURES]
        areas.setdefault(algorithm, []).append(means[0])
        words = ", ".join(
            f"{key} {value}" for key, value in trials(algorithm, config)[number].items()
        )
        cells = [f"{mean:.1%}" for mean in means]
        lines.append([algorithm, words.replace("budgets.", ""), *cells])
    path = results / "tuned.json"
    tuned = json.loads(path.read_text()) if path.exists() else {}
    for name, means in areas.items():
        best = trials(name, config)[int(np.argmax(means))]
        tuned[name] = {"panels": arguments.panels, "settings": best}
    table = markdown_table(["algorithm", "trial", *MEASURES], lines, text_columns=2)
    text = f"{command_line()}{table}\n{origin(every, curves)}"
    print(text)
    write_text(path, json.dumps(tuned, indent=1) + "\n")
    if arguments.docs:
        section = "tuning" if arguments.section == "comparison" else arguments.section
        into_docs(f"{config}: {section}", text)


def compare(arguments: argparse.Namespace, folder: Path, results: Path) -> None:
    """Runs each algorithm with its tuned settings on the panels; writes table and figure."""
    config, curves = arguments.config, Curves(results / "runs.jsonl")
    tuned_on = Path(arguments.tuned_on).stem
    places = [root / tuned_on / "tuned.json" for root in (results.parent, RESULTS)]
    stored = [json.loads(path.read_text()) for path in places if path.exists()]
    tuned: dict[str, Any] = dict(ChainMap(*stored))
    jobs = {}
    for name in arguments.algorithms:
        algorithm, source, more = variant(name)
        if source not in tuned:
            raise SystemExit(
                f"{source} has no tuned settings: run --tune {source} on further panels first"
            )
        chosen = tuned[source]
        if both := set(chosen["panels"]) & set(arguments.panels):
            raise SystemExit(
                f"{source} was tuned on panels {sorted(both)}: report on different panels"
            )
        settings = tuple({**chosen["settings"], **more}.items())
        jobs[name] = [
            Job(config, algorithm, settings, panel, folder / "runs", arguments.set)
            for panel in arguments.panels
        ]
    every = [job for of_panel in zip(*jobs.values(), strict=True) for job in of_panel]
    run_all(every, arguments.side_by_side, curves)
    runs = {name: [curves.rows(job) for job in each] for name, each in jobs.items()}
    trajectories = min(int(rows[-1]["trajectories"]) for each in runs.values() for rows in each)
    name = config if arguments.section == "comparison" else f"{config}, {arguments.section}"
    title = f"{name}: {len(arguments.panels)} panels, {trajectories:,} trajectories per run"
    about = f"panels (generator seeds) {', '.join(map(str, arguments.panels))}"
    text = (
        f"{command_line()}{title}; mean ± half-width of the 95% interval over panels.\n\n"
        f"{table(runs)}\n{origin(every, curves)}"
    )
    print(text)
    write_text(folder / "comparison.md", text)
    draw_comparison(drawn(runs), folder / "comparison.png", title, about)
    if arguments.docs:
        image = f"{arguments.section}-{Path(config).stem}.png"
        draw_comparison(drawn(runs), ROOT / "docs" / "images" / image, title, about)
        picture = f"\n![Success of {', '.join(drawn(runs))} over trajectories](images/{image})\n"
        into_docs(f"{config}: {arguments.section}", text + picture)


def command_line() -> str:
    """Returns the command of a table as a code block, without options for places of files."""
    script, *words = sys.argv
    kept = [
        word
        for before, word in zip([script, *words], words, strict=False)
        if not {word, before} & {"--output", "--section"} and word != "--docs"
    ]
    return f"```\npython benchmarks/{Path(script).name} {shlex.join(kept)}\n```\n\n"


def into_docs(section: str, text: str) -> None:
    """Writes text between the marks of a section of the pages docs/results*.md."""
    start, end = f"<!-- {section} -->\n", f"<!-- end of {section} -->"
    for page in (ROOT / "docs").glob("*.md"):
        before, opened, rest = page.read_text("utf-8").partition(start)
        _, closed, after = rest.partition(end)
        if opened and closed:
            write_text(page, before + start + "\n" + text + "\n" + end + after)
            return
    raise SystemExit(f"no page of docs has a section marked {start.strip()} ... {end}")


def main() -> None:
    """Tunes or compares, according to the arguments."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--panels", type=int, nargs="+", required=True, help="generator seeds")
    parser.add_argument("--config", default="embedded/alfworld", choices=list(PANELS))
    parser.add_argument("--tune", action="store_true", help="run every trial instead")
    parser.add_argument(
        "--algorithms",
        nargs="+",
        choices=[*ALGORITHMS, *VARIANTS],
        help=f"default: TRCA-scheduled and all algorithms except for {', '.join(sorted(NO_ROW))}",
    )
    parser.add_argument(
        "--tuned-on",
        choices=list(PANELS),
        help="config whose tuned settings are used [default: the same config]",
    )
    parser.add_argument("--side-by-side", type=int, default=2, help="runs at a time")
    parser.add_argument("--section", default="comparison", help="in a page of docs, for --docs")
    parser.add_argument("--set", action="append", default=[], help="key=value for every run")
    parser.add_argument("--output", type=Path, default=ROOT / "outputs" / "comparison")
    parser.add_argument(
        "--docs",
        action="store_true",
        help="write the result to its section in docs, settings and curves to benchmarks/results",
    )
    arguments = parser.parse_args()
    arguments.set = tuple(arguments.set)
    arguments.tuned_on = arguments.tuned_on or arguments.config
    if not arguments.algorithms:
        arguments.algorithms = [name for name in ALGORITHMS if name not in NO_ROW]
        arguments.algorithms.insert(1, SCHEDULED)
    if arguments.tune:
        for row in arguments.algorithms:
            if (source := variant(row)[1]) != row:
                parser.error(f"{row} takes the settings of {source}: --tune {source}")
    folder = arguments.output.resolve() / Path(arguments.config).stem
    results = RESULTS / folder.name if arguments.docs else folder
    for each in (folder, results):
        each.mkdir(parents=True, exist_ok=True)
    (tune if arguments.tune else compare)(arguments, folder, results)


if __name__ == "__main__":
    main()
