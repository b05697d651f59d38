"""Every algorithm at equal trajectories, with panels as the unit.

    python benchmarks/comparison.py --tune --panels 31 32              # choose settings on these
    python benchmarks/comparison.py --panels 41 42 43 44 45 46 --docs  # report them on others

A panel is a generator seed with a warm start of its own, and the seed of the run; seeds on one
panel hide the variance between panels. ``--tune`` runs the trials of each algorithm, as many for
each, and keeps the one with the highest mean training success. With ``--tuned-on quickstart``
another config runs with the settings that were chosen there.

Every run is a ``trca train`` of its own with one thread, ``--side-by-side`` at a time. Finished
runs are not repeated and interrupted runs resume, so the same command may be given again. The
chosen settings and the curves of finished runs are kept in ``tuned.json`` and ``runs.jsonl``, with
``--docs`` those in ``benchmarks/results``.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import time
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
from trca.cli.sweep.tuning import Lines
from trca.common.cache import digest
from trca.common.files import write_text
from trca.runs.curve import column, moving_mean
from trca.runs.success_tables import half_width, over_tasks
from trca.tune_configs.files import read

ROOT: Final = Path(__file__).parents[1]
RESULTS: Final = ROOT / "benchmarks" / "results"
"""Settings and curves behind docs/results.md, a folder for each config."""
PANELS: Final = {
    "quickstart": "env_config.games=small-{}",
    "webshop": "env_config.catalogue=small-{}",
    "searchqa": "env_config.seed={}",
}
"""The setting of each config that makes a panel of a generator seed."""
COMMON: Final = {
    "num_env_runners": 0,
    "num_learners": 0,
    "evaluation_tasks": 64,
    "evaluation_rollouts": 4,
}
"""Settings of every run beside those of its panel and trial: 256 held-out episodes at the end."""
OF_SEARCHES: Final = {"IGPO", "StepSearch"}
"""Algorithms that read the gold answers or passages of a search."""
MEASURES: Final = ("training, mean (area)", "training, last 5", "held out, end")
"""Measures by which algorithms are compared."""
SCORE: Final = "score, held out"
"""A further one, where an environment pays in parts."""
BUDGETS: Final = (0.3, 0.6, 1.0)
"""1.92K and 3.84K of 6.40K trajectories (the paper's Figure 4)."""
DRAWN: Final = 6
"""Algorithms in the picture: the first asked for, the baseline and the best others."""
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
"""Metrics kept of every iteration, beside those of evaluations."""

Trial = Mapping[str, float | str]
Rows = list[dict[str, Any]]


def _budgets(scale: float) -> dict[str, float]:
    """Budgets in the proportion 1 : 5 : 5."""
    return {
        "budgets.evidence": scale,
        "budgets.invalidity": 5 * scale,
        "budgets.execution": 5 * scale,
    }


_RATES: Final = (2e-4, 4e-4, 8e-4, 1e-4)
"""The fourth is beyond the edge at which most algorithms are best with three."""
SCHEDULED: Final = "TRCA-scheduled"
"""TRCA with this project's extension: budgets shrink to the share of the group that failed."""
VARIANTS: Final[Mapping[str, tuple[str, str, Trial]]] = {
    SCHEDULED: ("TRCA", SCHEDULED, {}),
    "TRCA-plan": ("TRCA", SCHEDULED, {"response_format": "plan"}),
    "GRPO-plan": ("GRPO", "GRPO", {"response_format": "plan"}),
    "GiGPO-plan": ("GiGPO", "GiGPO", {"response_format": "plan"}),
}
"""Rows beside the algorithms: the algorithm, the row whose tuned settings it takes, more settings.

With plans an algorithm begins from HiPER's warm start and differs from HiPER in the credit rule.
"""
OWN_TRIALS: Final[Mapping[str, Sequence[Trial]]] = {
    "TRCA": [
        {"lr": 4e-4, **_budgets(0.1)},
        {"lr": 8e-4, **_budgets(0.1)},
        {"lr": 2e-4, **_budgets(0.1)},
        {"lr": 4e-4, **_budgets(0.5)},
    ],
    # The two with constant budgets are trials of TRCA too. One of the scheduled two was chosen.
    SCHEDULED: [
        {"lr": 4e-4, **_budgets(0.1)},
        {"lr": 8e-4, **_budgets(0.1)},
        {"lr": 4e-4, **_budgets(0.5), "budget_schedule": "group_success"},
        {"lr": 2e-4, **_budgets(0.5), "budget_schedule": "group_success"},
    ],
    # Better the higher the rate.
    "FilteredBC": [{"lr": lr} for lr in (2e-4, 4e-4, 8e-4, 1.6e-3)],
    # At the default rate, for large models, a tiny critic stays blind.
    **{name: [{"lr": lr, "critic_lr": 1e-3} for lr in _RATES] for name in ("TurnPPO", "HiPER")},
}
"""Trials of algorithms with more to choose than a learning rate."""


def trials(row: str) -> Sequence[Trial]:
    """The four settings of a row that ``--tune`` tries on the quickstart."""
    return OWN_TRIALS.get(row, [{"lr": lr} for lr in _RATES])


def _variant(row: str) -> tuple[str, str, Trial]:
    """The algorithm of a row, the row whose tuned settings it takes, and further settings."""
    return VARIANTS.get(row, (row, row, {}))


@dataclass(frozen=True)
class Job:
    """One training run.

    Attributes:
        config: The config it starts from.
        algorithm: The algorithm.
        trial: Settings that the config does not have; empty for those of the config.
        panel: Generator seed, and seed of the run.
        folder: Holds the run folder.
        extra: Assignments ``key=value`` on top.
    """

    config: str
    algorithm: str
    trial: tuple[tuple[str, float | str], ...]
    panel: int
    folder: Path
    extra: tuple[str, ...] = ()

    @property
    def run(self) -> Path:
        """Its run folder."""
        return self.folder / f"{self.algorithm.lower()}-panel{self.panel}-{digest(self.key)[:8]}"

    @property
    def settings(self) -> list[str]:
        """Assignments ``key=value`` on top of the config."""
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
        """Whether it has finished."""
        status = self.run / "status.json"
        return status.exists() and json.loads(status.read_text())["state"] == "finished"

    def command(self) -> list[str]:
        """Starts the run, or resumes it."""
        trca = [sys.executable, "-m", "trca.cli", "train"]
        if (self.run / "config.yaml").exists():
            return [*trca, "--resume", str(self.run)]
        return [
            *(*trca, self.config, "--algorithm", self.algorithm),
            *(part for setting in self.settings for part in ("--set", setting)),
            *("--storage-path", str(self.folder), "--name", self.run.name),
        ]

    def metrics(self) -> Rows:
        """Its rows of metrics."""
        return [json.loads(line) for line in (self.run / "metrics.jsonl").read_text().splitlines()]


@cache
def _iterations(config: str) -> int:
    """Iterations of a config's run."""
    return int(read(config)["iterations"])


class Curves:
    """Curves of finished runs, in a file of JSON lines that is appended to.

    Args:
        path: The file; there need not be one.
    """

    def __init__(self, path: Path) -> None:
        self._lock = Lock()
        self._lines = Lines(path)
        self._runs: dict[tuple[str, ...], dict[str, Any]] = {
            (run["config_digest"], run["algorithm"], *run["settings"]): run for run in self._lines
        }

    def __contains__(self, job: Job) -> bool:
        return job.key in self._runs

    def rows(self, job: Job) -> Rows:
        """What is kept of the metrics of a run."""
        run = self._runs[job.key]
        every = run["iterations"]
        rows = [
            dict(zip(every, values, strict=True)) for values in zip(*every.values(), strict=True)
        ]
        for number, evaluation in run["evaluations"].items():
            rows[int(number)] |= evaluation
        return rows

    def panel_hash(self, job: Job) -> str:
        """Hash of the training panel of a run."""
        return str(self._runs[job.key]["panel_hash"])

    def add(self, job: Job) -> None:
        """Keeps what the tables and pictures need of a finished run."""
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
            "iterations": {key: [row.get(key) for row in rows] for key in KEPT},
            "evaluations": {str(number): kept for number, kept in evaluations.items() if kept},
        }
        with self._lock:
            self._lines.append(run)
            self._runs[job.key] = run


def run_all(jobs: Sequence[Job], side_by_side: int, curves: Curves) -> None:
    """Runs what is not finished, a few at a time, and keeps the curves."""
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
        raise SystemExit(f"{len(failed)} runs failed; give the command again to resume. See {logs}")


def reached(rows: Rows, level: float) -> float:
    """Trajectories until the moving mean of training success is at ``level``; NaN for never."""
    above = np.flatnonzero(moving_mean(column(rows, "success_rate")) >= level)
    return float(rows[above[0]]["trajectories"]) if len(above) else float("nan")


def measure(rows: Rows) -> dict[str, float]:
    """The measures of one run in the table."""
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
    """Training success, the mean of five iterations, after the paper's shares of trajectories."""
    smooth = moving_mean(column(rows, "success_rate"))
    places = [round(share * len(rows)) - 1 for share in BUDGETS]
    return {f"{int(rows[n]['trajectories']):,}": float(smooth[n]) for n in places}


def by_task_type(rows: Rows) -> dict[str, float]:
    """Success on the held-out episodes of each type of task, at the end."""
    last, start, end = rows[-1], "evaluation/task_types/", "/success_rate"
    return {
        name.removeprefix(start).removesuffix(end): float(value)
        for name, value in sorted(last.items())
        if name.startswith(start) and name.endswith(end)
    }


def cell(values: Sequence[float], count: bool) -> str:
    """Mean ± half-width; of what some panels never reach, over those that do, with their number."""
    known = [value for value in values if not np.isnan(value)]
    if not known:
        return "never"
    both = (float(np.mean(known)), half_width(known))
    mean, half = (f"{value:,.0f}" if count else f"{value:.1%}" for value in both)
    spread = f" ± {half}" if len(known) > 2 else ""
    return f"{mean}{spread}" + (
        f" ({len(known)} of {len(values)})" if len(known) < len(values) else ""
    )


def lead(first: Sequence[float], other: Sequence[float]) -> str:
    """Mean difference, paired by panel, in points: ± its t, and in brackets its bootstrap interval.

    Both are of 95%. Over few panels the bootstrap's (percentile) is too narrow; there is none where
    all differ alike.
    """
    differences = (100 * np.subtract(first, other)).tolist()
    low, high = over_tasks(differences)
    spread = f" ± {half_width(differences):.1f}" if len(differences) > 1 else ""
    interval = f" ({low:+.1f} to {high:+.1f})" if np.isfinite(low) else ""
    return f"{np.mean(differences):+.1f}{spread}{interval}"


def table(runs: Mapping[str, Sequence[Rows]]) -> str:
    """An algorithm a row: its measures, the first one's lead, and success by type of task."""
    measured = {name: [measure(rows) for rows in panels] for name, panels in runs.items()}
    in_parts = any(m[SCORE] != m["held out, end"] for each in measured.values() for m in each)
    names = [n for n in next(iter(measured.values()))[0] if n != SCORE or in_parts]
    compared = [*MEASURES, *([SCORE] if in_parts else [])]
    lines = ["| | " + " | ".join(names) + " |", "|---|" + "---:|" * len(names)]
    for algorithm, each in measured.items():
        cells = [cell([m[name] for m in each], name in names[:2]) for name in names]
        lines.append(f"| {algorithm} | " + " | ".join(cells) + " |")
    first, *others = measured
    if others:
        lines += [
            "",
            f"{first} minus each row, paired by panel, in points: ± half of the 95% t interval, and"
            " in brackets the 95% bootstrap interval over panels, which is too narrow for so few"
            f" panels. The last column is the share of the row's trajectories after which {first}"
            " reaches the row's final training success (its last 5):",
            "",
            f"| {first} minus | " + " | ".join(compared) + " | at its end after |",
            "|---|" + "---:|" * (len(compared) + 1),
        ]
    for other in others:
        cells = [lead(*([m[n] for m in measured[a]] for a in (first, other))) for n in compared]
        shares = [
            reached(own, measure(theirs)["training, last 5"]) / theirs[-1]["trajectories"]
            for own, theirs in zip(runs[first], runs[other], strict=True)
        ]
        lines.append(f"| {other} | " + " | ".join([*cells, cell(shares, count=False)]) + " |")
    for about, part in (
        ("Success in training after 30%, 60% and all of the trajectories", after),
        ("Success on held-out episodes by type of task", by_task_type),
    ):
        found = {name: [part(rows) for rows in panels] for name, panels in runs.items()}
        columns = list(found[first][0])
        lines += ["", f"{about}:", "", "| | " + " | ".join(columns) + " |"]
        lines.append("|---|" + "---:|" * len(columns))
        for name, each in found.items():
            cells = [cell([one[key] for one in each], count=False) for key in columns]
            lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def drawn(runs: Mapping[str, Sequence[Rows]]) -> dict[str, Sequence[Rows]]:
    """The first algorithm, GRPO and the others with the largest area, for a readable picture."""
    first, *others = runs
    areas = {n: np.mean([np.nanmean(column(r, "success_rate")) for r in runs[n]]) for n in others}
    best = sorted(others, key=lambda name: (name != BASELINE, -areas[name]))[: DRAWN - 1]
    return {name: runs[name] for name in runs if name == first or name in best}


def origin(jobs: Sequence[Job], curves: Curves) -> str:
    """The training panels by seed and hash, and the hours of all runs."""
    hashes = {job.panel: curves.panel_hash(job) for job in jobs}
    hours = sum(float(np.nansum(column(curves.rows(job), "seconds"))) for job in jobs) / 3600
    panels = ", ".join(f"{panel} ({digest})" for panel, digest in hashes.items())
    return (
        f"Panels (generator seed, hash of the training panel): {panels}. {len(jobs)} runs,"
        f" {hours:.1f} hours.\n"
    )


def tune(arguments: argparse.Namespace, folder: Path, results: Path) -> None:
    """Runs every trial on the tuning panels and writes down the best of each algorithm."""
    config, curves = arguments.config, Curves(results / "runs.jsonl")
    jobs = {
        (row, number): [
            Job(
                config,
                _variant(row)[0],
                tuple(trial.items()),
                panel,
                folder / "tuning",
                arguments.set,
            )
            for panel in arguments.panels
        ]
        for row in arguments.algorithms
        for number, trial in enumerate(trials(row))
    }
    every = [job for each in jobs.values() for job in each]
    run_all(every, arguments.side_by_side, curves)
    lines = [
        "| algorithm | trial | " + " | ".join(MEASURES) + " |",
        "|---|---|" + "---:|" * len(MEASURES),
    ]
    areas: dict[str, list[float]] = {}
    for (algorithm, number), each in jobs.items():
        measured = [measure(curves.rows(job)) for job in each]
        means = [float(np.mean([m[name] for m in measured])) for name in MEASURES]
        areas.setdefault(algorithm, []).append(means[0])
        words = ", ".join(f"{key} {value}" for key, value in trials(algorithm)[number].items())
        cells = " | ".join(f"{mean:.1%}" for mean in means)
        lines.append(f"| {algorithm} | {words.replace('budgets.', '')} | {cells} |")
    path = results / "tuned.json"
    tuned = json.loads(path.read_text()) if path.exists() else {}
    for name, found in areas.items():
        best = trials(name)[int(np.argmax(found))]
        tuned[name] = {"panels": arguments.panels, "settings": best}
    text = command_line() + "\n".join(lines) + "\n\n" + origin(every, curves)
    print(text)
    write_text(path, json.dumps(tuned, indent=1) + "\n")
    if arguments.docs:
        section = "tuning" if arguments.section == "comparison" else arguments.section
        into_docs(f"{config}: {section}", text)


def compare(arguments: argparse.Namespace, folder: Path, results: Path) -> None:
    """Runs each algorithm with its tuned settings on the panels; writes table and picture."""
    config, curves = arguments.config, Curves(results / "runs.jsonl")
    places = [root / arguments.tuned_on / "tuned.json" for root in (results.parent, RESULTS)]
    known = (json.loads(path.read_text()) for path in places if path.exists())
    tuned: dict[str, Any] = next(known, {})
    jobs = {}
    for name in arguments.algorithms:
        algorithm, source, more = _variant(name)
        if source not in tuned:
            raise SystemExit(
                f"{source} has no tuned settings: --tune {source} on other panels first"
            )
        chosen = tuned[source]
        if both := set(chosen["panels"]) & set(arguments.panels):
            raise SystemExit(f"{source} was tuned on panels {sorted(both)}: report on others")
        settings = tuple({**chosen["settings"], **more}.items())
        jobs[name] = [
            Job(config, algorithm, settings, panel, folder / "runs", arguments.set)
            for panel in arguments.panels
        ]
    every = [job for of_panel in zip(*jobs.values(), strict=True) for job in of_panel]
    run_all(every, arguments.side_by_side, curves)
    runs = {name: [curves.rows(job) for job in each] for name, each in jobs.items()}
    trajectories = min(int(rows[-1]["trajectories"]) for each in runs.values() for rows in each)
    what = config if arguments.section == "comparison" else f"{config}, {arguments.section}"
    title = f"{what}: {len(arguments.panels)} panels, {trajectories:,} trajectories per run"
    about = f"panels (generator seeds) {', '.join(map(str, arguments.panels))}"
    text = (
        f"{command_line()}{title}; mean ± half-width of the 95% interval over panels.\n\n"
        f"{table(runs)}\n{origin(every, curves)}"
    )
    print(text)
    write_text(folder / "comparison.md", text)
    draw_comparison(drawn(runs), folder / "comparison.png", title, about)
    if arguments.docs:
        image = f"{arguments.section}-{config}.png"
        draw_comparison(drawn(runs), ROOT / "docs" / "images" / image, title, about)
        picture = f"\n![Success of {', '.join(drawn(runs))} over trajectories](images/{image})\n"
        into_docs(f"{config}: {arguments.section}", text + picture)


def command_line() -> str:
    """The command that makes a table, wherever its runs lie, to stand above it."""
    script, *words = sys.argv
    kept = [
        word
        for before, word in zip([script, *words], words, strict=False)
        if not {word, before} & {"--output", "--section"} and word != "--docs"
    ]
    return f"```\npython benchmarks/{Path(script).name} {shlex.join(kept)}\n```\n\n"


def into_docs(section: str, text: str) -> None:
    """Puts text between the marks of a section of docs/results.md."""
    page = ROOT / "docs" / "results.md"
    start, end = f"<!-- {section} -->\n", f"<!-- end of {section} -->"
    before, found, rest = page.read_text("utf-8").partition(start)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        raise SystemExit(f"{page} has no section marked {start.strip()} ... {end}")
    write_text(page, before + start + "\n" + text + "\n" + end + after)


def main() -> None:
    """Reads the arguments and goes."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--panels", type=int, nargs="+", required=True, help="generator seeds")
    parser.add_argument("--config", default="quickstart", choices=list(PANELS))
    parser.add_argument("--tune", action="store_true", help="try every trial instead")
    parser.add_argument(
        "--algorithms",
        nargs="+",
        choices=[*ALGORITHMS, *VARIANTS],
        help="default: all rules but those for searches, and TRCA-scheduled",
    )
    parser.add_argument(
        "--tuned-on",
        choices=list(PANELS),
        help="config whose chosen settings are used; its own, unless named",
    )
    parser.add_argument("--side-by-side", type=int, default=2, help="runs at a time")
    parser.add_argument("--section", default="comparison", help="of docs/results.md, for --docs")
    parser.add_argument("--set", action="append", default=[], help="key=value for every run")
    parser.add_argument("--output", type=Path, default=ROOT / "outputs" / "comparison")
    parser.add_argument(
        "--docs",
        action="store_true",
        help="put the result into docs/results.md, settings and curves into benchmarks/results",
    )
    arguments = parser.parse_args()
    arguments.set = tuple(arguments.set)
    arguments.tuned_on = arguments.tuned_on or arguments.config
    if not arguments.algorithms:
        arguments.algorithms = [name for name in ALGORITHMS if name not in OF_SEARCHES]
        arguments.algorithms.insert(1, SCHEDULED)
    if arguments.tune:
        for row in arguments.algorithms:
            if (source := _variant(row)[1]) != row:
                parser.error(f"{row} takes the settings of {source}: --tune {source}")
    folder = arguments.output.resolve() / arguments.config
    results = RESULTS / arguments.config if arguments.docs else folder
    for each in (folder, results):
        each.mkdir(parents=True, exist_ok=True)
    (tune if arguments.tune else compare)(arguments, folder, results)


if __name__ == "__main__":
    main()
