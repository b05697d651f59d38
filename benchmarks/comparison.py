"""TRCA, GiGPO and GRPO from the same start, on the same tasks, with as many trajectories each.

    python benchmarks/comparison.py --tune           # the learning rate, the same grid for each
    python benchmarks/comparison.py --docs           # the comparison, with what --tune found
    python benchmarks/comparison.py --config webshop --algorithms TRCA GRPO --docs

Every run is a ``trca train`` of its own, one thread each, ``--side-by-side`` at a time. Runs
that are finished are not run again and runs that broke off go on from their last checkpoint, so the
same command may be given until it is through.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trca.cli.curve import INK, STYLE, column, moving_mean
from trca.cli.run_folder import write_text
from trca.tune_configs.files import read
from trca.tune_configs.settings import RunSettings

ROOT = Path(__file__).parents[1]
COLORS = {"TRCA": "#d1495b", "GiGPO": "#2a6f97", "GRPO": "#7a8794"}
TUNING_SEED = 1000
"""Seed of the tuning runs: none of the comparison's."""

Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Job:
    """One training run."""

    algorithm: str
    lr: float
    seed: int
    folder: Path
    arguments: tuple[str, ...]

    @property
    def run(self) -> Path:
        """Its run folder."""
        return self.folder / f"{self.algorithm.lower()}-lr{self.lr:g}-seed{self.seed}"

    @property
    def finished(self) -> bool:
        """Whether it is through."""
        status = self.run / "status.json"
        return status.exists() and json.loads(status.read_text())["state"] == "finished"

    def command(self) -> list[str]:
        """What starts it, or goes on with it."""
        trca = [sys.executable, "-m", "trca.cli", "train"]
        if (self.run / "config.yaml").exists():
            return [*trca, "--resume", str(self.run)]
        return [
            *trca,
            *self.arguments,
            *("--algorithm", self.algorithm, "--seed", str(self.seed), "--set", f"lr={self.lr}"),
            *("--storage-path", str(self.folder), "--name", self.run.name),
        ]

    def metrics(self) -> Rows:
        """Its rows of metrics."""
        lines = (self.run / "metrics.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]


def run_all(jobs: Sequence[Job], side_by_side: int) -> None:
    """Runs what is not finished, a few at a time."""
    waiting = [job for job in jobs if not job.finished]
    print(f"{len(jobs)} runs, {len(jobs) - len(waiting)} of them finished already", flush=True)
    running: dict[subprocess.Popen[bytes], tuple[Job, float]] = {}
    failed: list[Job] = []
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    while waiting or running:
        while waiting and len(running) < side_by_side:
            job = waiting.pop(0)
            job.folder.mkdir(parents=True, exist_ok=True)
            with (job.folder / f"{job.run.name}.log").open("ab") as log:
                process = subprocess.Popen(
                    job.command(),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd=ROOT,
                    env={**os.environ, **threads},
                )
            running[process] = job, time.monotonic()
        time.sleep(0.5)
        for process in [p for p in running if p.poll() is not None]:
            job, start = running.pop(process)
            seconds = time.monotonic() - start
            print(f"{job.run.name}: exit {process.returncode} after {seconds:.0f} s", flush=True)
            if not job.finished:
                failed.append(job)
    if failed:
        logs = ", ".join(f"{job.run}.log" for job in failed)
        raise SystemExit(f"{len(failed)} runs failed; give the command again to go on. See {logs}")


def stack(runs: Sequence[Rows], key: str) -> NDArray[np.float64]:
    """A metric of several runs, (runs, iterations), cut to the shortest."""
    columns = [column(rows, key) for rows in runs]
    length = min(map(len, columns))
    return np.stack([values[:length] for values in columns])


def spread(values: Sequence[float] | NDArray[np.float64]) -> tuple[float, float, float]:
    """Mean, standard deviation and half-width of the 95% t interval over seeds."""
    from scipy.stats import t

    array = np.asarray(values, dtype=float)
    n = len(array)
    std = float(array.std(ddof=1)) if n > 1 else float("nan")
    half = float(t.ppf(0.975, n - 1)) * std / n**0.5 if n > 1 else float("nan")
    return float(array.mean()), std, half


def last(values: NDArray[np.float64]) -> float:
    """The last value that is known."""
    known = values[~np.isnan(values)]
    return float(known[-1]) if len(known) else float("nan")


def measures(rows: Rows) -> dict[str, float]:
    """What the table says of one run."""
    success = column(rows, "success_rate")
    free = column(rows, "frac_success_free_groups")
    zero = column(rows, "frac_zero_advantage")
    third = max(1, len(rows) // 3)
    return {
        "success, training, last 5": float(np.nanmean(success[-5:])),
        "success, training, all": float(np.nanmean(success)),
        "success, held out, end": last(column(rows, "evaluation/success_rate")),
        **_scores(rows),
        "success-free groups, first third": float(np.nanmean(free[:third])),
        "success-free groups, last third": float(np.nanmean(free[-third:])),
        "steps with advantage, first third": 1 - float(np.nanmean(zero[:third])),
        "steps with advantage, last third": 1 - float(np.nanmean(zero[-third:])),
    }


def _scores(rows: Rows) -> dict[str, float]:
    """The same of the world's score, where that says more than success."""
    score = column(rows, "score")
    if np.array_equal(score, column(rows, "success_rate"), equal_nan=True):
        return {}
    return {
        "score, training, last 5": float(np.nanmean(score[-5:])),
        "score, held out, end": last(column(rows, "evaluation/score")),
    }


def summarise(runs: dict[str, list[Rows]]) -> dict[str, dict[str, tuple[float, float, float]]]:
    """Every measure of every algorithm: mean, std and 95% half-width over seeds."""
    result = {}
    for algorithm, seeds in runs.items():
        each = [measures(rows) for rows in seeds]
        result[algorithm] = {name: spread([m[name] for m in each]) for name in each[0]}
    return result


def markdown(runs: dict[str, list[Rows]], lrs: dict[str, float]) -> str:
    """The table: a measure a row, an algorithm a column."""
    summary = summarise(runs)
    seeds = len(next(iter(runs.values())))
    trajectories = min(int(rows[-1]["trajectories"]) for all_ in runs.values() for rows in all_)
    lines = [
        f"{seeds} seeds each, {trajectories:,} trajectories a run; mean ± standard deviation over"
        " seeds, and in brackets the half-width of the 95% interval of the mean. Learning rates: "
        + ", ".join(f"{name} {lr:g}" for name, lr in lrs.items())
        + ".",
        "",
        "| | " + " | ".join(summary) + " |",
        "|---|" + "---:|" * len(summary),
    ]
    for measure in next(iter(summary.values())):
        cells = [
            f"{mean:.1%} ± {std:.1%} ({half:.1%})"
            for mean, std, half in (summary[name][measure] for name in summary)
        ]
        lines.append(f"| {measure} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def draw(runs: dict[str, list[Rows]], path: Path) -> None:
    """Panels over trajectories: mean over seeds, and the 95% band of the mean."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    panels = [
        ("success_rate", "success, training (mean of 5)", True),
        ("evaluation/success_rate", "success, held out", False),
        ("frac_success_free_groups", "groups without a success", True),
        ("frac_zero_advantage", "steps with non-zero advantage", True),
    ]
    if any(_scores(rows) for seeds in runs.values() for rows in seeds):
        panels[2:2] = [
            ("score", "score, training (mean of 5)", True),
            ("evaluation/score", "score, held out", False),
        ]
    lines = len(panels) // 2
    with rc_context(STYLE):
        figure = Figure(figsize=(9.6, 3.2 * lines), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots(lines, 2, sharex=True, sharey="row").flat
        for axis, (key, title, smooth) in zip(axes, panels, strict=True):
            for algorithm, seeds in runs.items():
                x, mean, half = _band(seeds, key, smooth)
                color = COLORS.get(algorithm, INK)
                axis.plot(x, mean, color=color, linewidth=2, label=algorithm)
                axis.fill_between(x, mean - half, mean + half, color=color, alpha=0.15, linewidth=0)
            axis.set_title(title, loc="left", fontweight="bold")
            axis.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        for axis in figure.axes:
            axis.set_ylim(0, min(1, axis.get_ylim()[1]))
        figure.axes[0].legend(loc="upper left")
        for axis in figure.axes[-2:]:
            axis.set_xlabel("trajectories")
        figure.savefig(path)


def _band(
    seeds: Sequence[Rows], key: str, smooth: bool
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    values = stack(seeds, key)
    x = column(seeds[0], "trajectories")[: values.shape[1]]
    if key == "frac_zero_advantage":
        values = 1 - values
    known = ~np.isnan(values).any(axis=0)
    x, values = x[known], values[:, known]
    if smooth:
        values = np.stack([moving_mean(row) for row in values])
    figures = np.array([spread(column_) for column_ in values.T]).reshape(-1, 3)
    return x, figures[:, 0], np.nan_to_num(figures[:, 2])


def tune(arguments: argparse.Namespace, folder: Path) -> None:
    """Tries every learning rate for every algorithm and writes down the best of each."""
    seeds = range(TUNING_SEED, TUNING_SEED + arguments.tune_seeds)
    jobs = [
        job
        for algorithm in arguments.algorithms
        for lr in arguments.lr_grid
        for job in _jobs(arguments, folder / "tuning", {algorithm: lr}, seeds)
    ]
    run_all(jobs, arguments.side_by_side)
    score: dict[str, dict[float, float]] = {name: {} for name in arguments.algorithms}
    for algorithm in arguments.algorithms:
        for lr in arguments.lr_grid:
            these = [j for j in jobs if (j.algorithm, j.lr) == (algorithm, lr)]
            score[algorithm][lr] = float(
                np.mean([measures(j.metrics())["success, training, all"] for j in these])
            )
    lines = [
        f"Success of the training rollouts of {arguments.iterations} iterations, with"
        f" {arguments.tune_seeds} seed(s) that the comparison does not use.",
        "",
        "| learning rate | " + " | ".join(arguments.algorithms) + " |",
        "|---|" + "---:|" * len(arguments.algorithms),
    ]
    for lr in arguments.lr_grid:
        cells = " | ".join(f"{score[name][lr]:.1%}" for name in arguments.algorithms)
        lines.append(f"| {lr:g} | {cells} |")
    text = "\n".join(lines) + "\n"
    print(text)
    best = {name: max(score[name], key=score[name].__getitem__) for name in score}
    write_text(folder / "tuning.md", text)
    write_text(folder / "tuning.json", json.dumps(best, indent=2) + "\n")
    print("best:", best)


def compare(arguments: argparse.Namespace, folder: Path) -> None:
    """Runs every algorithm with every seed; writes the table and the figure."""
    tuned = folder / "tuning.json"
    found = json.loads(tuned.read_text()) if tuned.exists() else {}
    lrs = {name: found.get(name, arguments.lr) for name in arguments.algorithms}
    jobs = list(_jobs(arguments, folder / "runs", lrs, arguments.seeds))
    run_all(jobs, arguments.side_by_side)
    runs = {name: [j.metrics() for j in jobs if j.algorithm == name] for name in lrs}
    text = markdown(runs, lrs)
    print(text)
    write_text(folder / "comparison.md", text)
    write_text(folder / "comparison.json", json.dumps(summarise(runs), indent=2) + "\n")
    draw(runs, folder / "comparison.png")
    if arguments.docs:
        tuning, world = folder / "tuning.md", arguments.config
        image = f"comparison-{world}.png"
        draw(runs, ROOT / "docs" / "images" / image)
        picture = f"![{', '.join(runs)} on {world}](images/{image})"
        _into_docs(f"{world}: comparison", f"{text}\n{picture}\n")
        if tuning.exists():
            _into_docs(f"{world}: tuning", tuning.read_text())


def _jobs(
    arguments: argparse.Namespace, folder: Path, lrs: dict[str, float], seeds: Sequence[int]
) -> Iterator[Job]:
    common = [arguments.config, "--iterations", str(arguments.iterations)]
    for assignment in arguments.set:
        common += ["--set", assignment]
    for seed in seeds:
        for algorithm, lr in lrs.items():
            yield Job(algorithm, lr, seed, folder, tuple(common))


def _into_docs(section: str, text: str) -> None:
    """Puts text between the marks of a section of docs/results.md."""
    page = ROOT / "docs" / "results.md"
    start, end = f"<!-- {section} -->\n", f"<!-- end of {section} -->"
    content = page.read_text("utf-8")
    before, found, rest = content.partition(start)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        raise SystemExit(f"{page} has no section marked {start.strip()} ... {end}")
    write_text(page, before + start + "\n" + text + "\n" + end + after)


def main() -> None:
    """Reads the arguments and goes."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--config", default="quickstart", help="config that every run starts from")
    parser.add_argument("--algorithms", nargs="+", default=["TRCA", "GiGPO", "GRPO"])
    parser.add_argument("--iterations", type=int, help="of every run; the config's, if not told")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--lr", type=float, default=4e-4, help="learning rate where none is tuned")
    parser.add_argument("--side-by-side", type=int, default=2, help="runs at a time")
    parser.add_argument("--set", action="append", default=[], help="key=value for every run")
    parser.add_argument("--output", type=Path, help="outputs/comparison/CONFIG, if not told")
    parser.add_argument("--docs", action="store_true", help="put the result into docs/results.md")
    parser.add_argument("--tune", action="store_true", help="tune the learning rate of each")
    parser.add_argument("--lr-grid", type=float, nargs="+", default=[1e-4, 2e-4, 4e-4, 8e-4])
    parser.add_argument("--tune-seeds", type=int, default=1)
    arguments = parser.parse_args()
    settings = RunSettings.resolve(read(arguments.config))
    arguments.iterations = arguments.iterations or settings.parameters.iterations
    folder = arguments.output or ROOT / "outputs" / "comparison" / arguments.config
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    (tune if arguments.tune else compare)(arguments, folder)


if __name__ == "__main__":
    main()
