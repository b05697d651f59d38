"""A sweep: every trial is a run of its own, in a process of its own, a few side by side.

A trial that fails or is stopped leaves the others alone. All trials share one Ray. Where a search
chooses the points, trials are made as it goes (`trca.cli.tuning`).
"""

from __future__ import annotations

import ctypes
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from trca.cli.curve import draw_comparison, panel_words
from trca.cli.provenance import versions
from trca.cli.run_folder import RunFolder
from trca.cli.tables import half_width, terminal_table
from trca.cli.tuning import EarlyStopping, PointSearch, Result
from trca.common.files import write_text
from trca.tune_configs.files import ConfigError, map_texts, path_parts
from trca.tune_configs.settings import RunSettings
from trca.tune_configs.sweeps import SweepSettings

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

MEASURES: Final = {
    "evaluation/success_rate": "success, held out",
    "success_rate": "success, training, last 5",
}
"""Metrics of the table, with the words of its columns."""
_STOPPED: Final = "stopped.json"
OVER: Final = frozenset({"finished", "stopped"})
"""States of trials that are not run again."""
_ATTEMPT: Final = "--- trca train --resume"
"""The first line of each attempt in a trial's log."""
_SECONDS_BETWEEN_LOOKS: Final = 0.2
_DIE_WITH_PARENT: Final = 1  # PR_SET_PDEATHSIG
_LIBC: Final = ctypes.CDLL(None) if sys.platform == "linux" else None


@dataclass(frozen=True)
class Trial:
    """One point with one seed on one panel.

    Attributes:
        point: The settings of the point.
        words: Their values in words, as `point_words` gives them.
        panel: Its panel in words, blank where the sweep names none.
        seed: The seed.
        run: Its run folder.
        iterations: Its last iteration.
    """

    point: dict[str, Any]
    words: dict[str, str]
    panel: str
    seed: int
    run: RunFolder
    iterations: int

    @property
    def number(self) -> int:
        """Its number in the sweep, from 1 on."""
        return _number(self.run.path)

    @property
    def repeat(self) -> str:
        """The panel and the seed in words."""
        return "  ".join(filter(None, (self.panel, f"seed={self.seed}")))

    @property
    def label(self) -> str:
        """The point, the panel and the seed in words."""
        return f"{joined(self.words)}  {self.repeat}"

    @property
    def stopped(self) -> dict[str, Any] | None:
        """Where a scheduler stopped it: iteration, trajectories, metric and value."""
        stopped: dict[str, Any] | None = self.run.read_json(_STOPPED)
        return stopped

    @property
    def state(self) -> str:
        """``waiting``, ``stopped`` where a scheduler stopped it, or the state of the run."""
        if self.stopped:
            return "stopped"
        if self.run.last_iteration() >= self.iterations:
            return "finished"
        return str((self.run.read_json("status.json") or {}).get("state", "waiting"))


def point_words(points: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """The values of points in words: a file by its name, and by its folders where two have one."""
    paths = {path for point in points for path in _paths(point)}
    names = {path: _shortest(path, paths - {path}) for path in paths}

    def short(text: str) -> str:
        path, rest = path_parts(text)
        return f"{names[path]}{rest}" if path in names else text

    return [{key: _words(map_texts(value, short)) for key, value in p.items()} for p in points]


def _words(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_words(each)}" for key, each in value.items())
    return str(float(f"{value:.6g}") if isinstance(value, float) else value)


def joined(words: Mapping[str, str]) -> str:
    """The words of a point as ``lambda_=0.8  lr=0.0004``."""
    return "  ".join(f"{key}={value}" for key, value in words.items())


def _paths(point: Mapping[str, Any]) -> set[Path]:
    found: set[Path] = set()

    def note(text: str) -> str:
        path, _ = path_parts(text)
        if path is not None and path.is_absolute():
            found.add(path)
        return text

    map_texts(list(point.values()), note)
    return found


def _shortest(path: Path, others: set[Path]) -> str:
    """The last parts of a path that no other path ends with."""
    for count in range(1, len(path.parts)):
        end = path.parts[-count:]
        if all(other.parts[-count:] != end for other in others):
            return "/".join(end)
    return str(path)


def begin(sweep: SweepSettings, folder: RunFolder) -> None:
    """Writes down a sweep, and its trials where no search chooses them; nothing is run."""
    if not sweep.search:
        make_trials(sweep, folder)
    folder.write_json("versions.json", versions())
    folder.write_settings(sweep.with_base().model_dump())


def make_trials(sweep: SweepSettings, folder: RunFolder) -> list[Trial]:
    """Makes the run folder of every trial of a sweep without a search."""
    _make_points(sweep, folder, sweep.points(), first=0)
    return read_trials(folder)


def _make_points(
    sweep: SweepSettings, folder: RunFolder, points: Sequence[Mapping[str, Any]], first: int
) -> None:
    """Makes the trials of some points that are not there yet.

    Args:
        sweep: The sweep.
        folder: Its folder.
        points: The points.
        first: The number of the first of them.
    """
    all_of_them = itertools.product(
        zip(points, point_words(points), strict=True),
        zip(sweep.panels, point_words(sweep.panels), strict=True),
        sweep.seeds,
    )
    number = first * sweep.repeats
    for (point, words), (panel, where), seed in all_of_them:
        number += 1
        settings = sweep.trial({**panel, **point}, seed)
        named = {**words, **where}
        parts = [f"{key.split('.')[-1].strip('_')}-{value}" for key, value in named.items()]
        slug = re.sub(r"[^\w.+-]+", "-", "_".join([*parts, f"seed-{seed}"]))[:80]
        name = f"{number:03d}_{slug}"
        if (folder.path / "trials" / name / "trial.json").exists():
            continue
        shutil.rmtree(folder.path / "trials" / name, ignore_errors=True)  # a kill left half of it
        run = RunFolder.create(folder.path / "trials", name, numbered=False)
        run.write_settings(settings.flat())
        run.write_json("trial.json", {"point": point, "panel": panel, "seed": seed})


def read_trials(folder: RunFolder) -> list[Trial]:
    """The trials of a sweep's folder.

    Raises:
        ConfigError: When there are none.
    """
    found = (folder.path / "trials").glob("*/trial.json")
    runs = [RunFolder(p.parent) for p in sorted(found, key=lambda p: _number(p.parent))]
    if not runs:
        raise ConfigError(f"{folder.path} has no trials: start a new sweep")
    about = [run.read_json("trial.json") for run in runs]
    words = point_words([each["point"] for each in about])
    panels = [joined(each) for each in point_words([each.get("panel", {}) for each in about])]
    return [
        Trial(each["point"], named, panel, each["seed"], run, run.read_config()["iterations"])
        for each, named, panel, run in zip(about, words, panels, runs, strict=True)
    ]


def _number(trial: Path) -> int:
    return int(trial.name.partition("_")[0])


class Tuning:
    """What a sweep leaves to Ray Tune: which points come next, and which trials stop early."""

    def __init__(self, sweep: SweepSettings, folder: RunFolder) -> None:
        """Takes up a sweep where it is.

        Args:
            sweep: The sweep, as its folder has it.
            folder: Its folder.

        Raises:
            ConfigError: When the search does not repeat the points that were run.
        """
        self._sweep, self._folder = sweep, folder
        self._search = PointSearch(sweep, folder.path / "search.jsonl") if sweep.search else None
        self._points = 0
        self._ended = -1
        if not any((folder.path / "trials").glob("*/trial.json")):
            return
        trials = read_trials(folder)
        if sweep.scheduler:
            for trial in trials:
                if (line := self._stopping.stopped.get(trial.run.name)) and not trial.stopped:
                    self._note_stop(trial, line["iteration"], line["value"])
        if self._search:
            self._replay(self._search, trials)

    @cached_property
    def _stopping(self) -> EarlyStopping:
        """Is made once there is a trial; all have one length."""
        iterations = read_trials(self._folder)[0].iterations
        return EarlyStopping(self._sweep, iterations, self._folder.path / "scheduler.jsonl")

    def _replay(self, search: PointSearch, trials: list[Trial]) -> None:
        for number, group in enumerate(_by_point(trials, self._sweep.repeats)):
            again = search.next(lambda _: None)
            if again is None or point_words([again]) != point_words([group[0].point]):
                raise ConfigError(
                    f"{self._folder.path}: the search gives {again} as point {number + 1} and ran"
                    f" {group[0].point}: go on with the version of Optuna it was started with"
                )
            if len(group) < self._sweep.repeats:
                _make_points(self._sweep, self._folder, [group[0].point], number)
            self._points += 1

    def more(self, ended: Sequence[Trial]) -> list[Trial]:
        """Makes the trials that can be made now.

        Args:
            ended: The trials that ended, well or not.

        Returns:
            The new ones.
        """
        if self._search is None or len(ended) == self._ended:
            return []
        self._ended = len(ended)
        repeats = self._sweep.repeats

        def result_of(number: int) -> Result | None:
            group = [trial for trial in ended if (trial.number - 1) // repeats == number]
            return _result(group, self._sweep.metric) if len(group) == repeats else None

        first = self._points
        while (point := self._search.next(result_of)) is not None:
            _make_points(self._sweep, self._folder, [point], self._points)
            self._points += 1
        return read_trials(self._folder)[first * repeats :] if self._points > first else []

    def stops(self, trial: Trial, rows: Sequence[Mapping[str, Any]]) -> bool:
        """Whether a trial stops, by its metrics so far; what was judged before stays."""
        if self._sweep.scheduler is None:
            return False
        for count, row in enumerate(rows, start=1):
            value = measure(rows[:count], self._sweep.metric)
            if not np.isnan(value) and self._stopping.stops(
                trial.run.name, trial.repeat, row["iteration"], value
            ):
                self._note_stop(trial, row["iteration"], value)
                return True
        return False

    def _note_stop(self, trial: Trial, iteration: int, value: float) -> None:
        rows = [row for row in trial.run.metrics() if row["iteration"] == iteration]
        rollouts = rows[0]["trajectories"] if rows else None
        about = {"iteration": iteration, "trajectories": rollouts}
        trial.run.write_json(_STOPPED, {**about, "metric": self._sweep.metric, "value": value})


def _result(trials: Sequence[Trial], metric: str) -> Result:
    """What a point came to whose trials have all ended."""
    stops = [trial.stopped for trial in trials]
    values = [
        stop["value"] if stop else measure(trial.run.metrics(), metric)
        for trial, stop in zip(trials, stops, strict=True)
    ]
    if np.isnan(values).any() or any(t.state not in ("finished", "stopped") for t in trials):
        return Result(None)
    first = min((stop["iteration"] for stop in stops if stop), default=None)
    return Result(float(np.mean(values)), first)


class Sweep:
    """Runs the trials that are left.

    Attributes:
        interrupted: Whether Ctrl-C stopped it.
    """

    def __init__(
        self, trials: Sequence[Trial], tuning: Tuning, side_by_side: int, console: Console
    ) -> None:
        """Takes the trials.

        Args:
            trials: The trials of the sweep so far.
            tuning: Makes further ones, and stops some early.
            side_by_side: The most trials at a time.
            console: Where to print.
        """
        self.interrupted = False
        self._console = console
        self._tuning = tuning
        self._side_by_side = side_by_side
        self._waiting = [trial for trial in trials if trial.state not in OVER]
        self._ended = [trial for trial in trials if trial.state in OVER]
        self._running: dict[subprocess.Popen[bytes], Trial] = {}
        self._sizes: dict[Path, int] = {}
        self._rows_shown = {trial.run.path: len(trial.run.metrics()) for trial in trials}

    def run(self) -> None:
        """Runs until every trial ended.

        The first Ctrl-C stops each trial after its iteration; the second stops all at once.
        """
        try:
            self._start_some()
            while self._waiting or self._running:
                try:
                    self._step()
                except KeyboardInterrupt:
                    self._stop()
        finally:
            for process in self._running:
                process.kill()
                process.wait()

    def _step(self) -> None:
        time.sleep(_SECONDS_BETWEEN_LOOKS)
        for process, trial in list(self._running.items()):
            ended = process.poll() is not None
            self._show(process, trial)
            if ended:
                del self._running[process]
                self._ended.append(trial)
                self._say_end(trial, process)
        self._start_some()

    def _start_some(self) -> None:
        while not self.interrupted and len(self._running) < self._side_by_side:
            if not self._waiting:
                self._waiting += self._tuning.more(self._ended)
            if not self._waiting:
                return
            trial = self._waiting.pop(0)
            rows = trial.run.metrics()
            if self._tuning.stops(trial, rows):  # a kill came before it was judged
                self._say_stopped(trial)
                self._ended.append(trial)
                continue
            self._running[_start(trial)] = trial

    def _stop(self) -> None:
        if self.interrupted:
            raise KeyboardInterrupt
        self.interrupted = True
        self._waiting.clear()
        self._console.print("stopping after the running iterations; Ctrl-C again stops at once")
        for process in self._running:
            process.send_signal(signal.SIGINT)

    def _show(self, process: subprocess.Popen[bytes], trial: Trial) -> None:
        path = trial.run.path / "metrics.jsonl"
        size = path.stat().st_size if path.exists() else 0
        if size == self._sizes.get(path, 0):
            return
        self._sizes[path] = size
        rows, shown_before = trial.run.metrics(), self._rows_shown.get(trial.run.path, 0)
        if len(rows) <= shown_before:
            return
        for row in rows[shown_before:]:
            held_out = row.get("evaluation/success_rate")
            shown = "" if held_out is None else f"  held out {held_out:.1%}"
            self._console.print(
                f"{trial.label}  iteration {row['iteration']}/{trial.iterations}  "
                f"success {row.get('success_rate', float('nan')):.1%}{shown}",
                markup=False,
            )
        self._rows_shown[trial.run.path] = len(rows)
        if not trial.stopped and self._tuning.stops(trial, rows):
            self._say_stopped(trial)
            process.send_signal(signal.SIGINT)

    def _say_stopped(self, trial: Trial) -> None:
        self._console.print(f"{trial.label}  {_stop_words(trial.stopped or {})}", markup=False)

    def _say_end(self, trial: Trial, process: subprocess.Popen[bytes]) -> None:
        """Tells a failure, and writes it down where the trial could not."""
        if process.returncode == 0 or self.interrupted or trial.state in OVER:
            return
        reason = failure(trial, process.pid)
        with suppress(OSError):
            trial.run.set_status("failed", trial.run.last_iteration(), reason)
        self._console.print(
            f"{trial.label}  failed: {reason}. Log: {_log(trial)}", markup=False, style="red"
        )


def failure(trial: Trial, pid: int) -> str:
    """Why the process of a trial failed, in words."""
    status = trial.run.read_json("status.json") or {}
    if (status.get("pid"), status.get("state")) == (pid, "failed"):
        return str(status["message"])
    log = _log(trial).read_text("utf-8", "replace")
    lines = log[log.rfind(_ATTEMPT) :].splitlines()
    told = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    return told[-1] if told else "the process ended"


def _die_with_parent() -> None:
    if _LIBC is not None:
        _LIBC.prctl(_DIE_WITH_PARENT, signal.SIGKILL)


def _log(trial: Trial) -> Path:
    return trial.run.path / "logs" / "console.log"


def _start(trial: Trial) -> subprocess.Popen[bytes]:
    """Starts ``trca train --resume`` for a trial; it ends when this process is killed."""
    log = _log(trial)
    log.parent.mkdir(exist_ok=True)
    with log.open("ab") as file:
        file.write(f"{_ATTEMPT}\n".encode())
        file.flush()
        return subprocess.Popen(
            [sys.executable, "-m", "trca", "train", "--resume", str(trial.run.path.resolve())],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,  # a terminal's Ctrl-C reaches this process alone
            preexec_fn=_die_with_parent,
        )


def most_cpus(sweep: SweepSettings) -> float:
    """The most CPUs that a trial asks Ray for."""
    trials = (sweep.trial(point, sweep.seeds[0]) for point in sweep.points())
    return max(trial.run.resources()[0] for trial in trials)


def run_sweep(
    sweep: SweepSettings, trials: Sequence[Trial], tuning: Tuning, console: Console
) -> bool:
    """Runs what is left of a sweep on one Ray.

    Args:
        sweep: The sweep.
        trials: Its trials so far.
        tuning: Makes further ones, and stops some early.
        console: Where to print.

    Returns:
        Whether Ctrl-C stopped it.
    """
    import ray

    from trca.cli.training import init_ray

    runner = Sweep(trials, tuning, sweep.side_by_side, console)
    if os.environ.get("RAY_ADDRESS"):
        runner.run()
        return runner.interrupted
    address = init_ray(sweep.side_by_side * (1 + most_cpus(sweep))).address_info
    os.environ["RAY_ADDRESS"] = address["gcs_address"]
    try:
        runner.run()
    finally:
        del os.environ["RAY_ADDRESS"]
        ray.shutdown()
    return runner.interrupted


def summarise(trials: Sequence[Trial], repeats: int) -> list[dict[str, Any]]:
    """One row a point: its settings, and mean, interval and n of each measure over its whole runs.

    Runs that were stopped early are told by themselves, and are in no mean.

    Args:
        trials: The trials of a sweep.
        repeats: The trials of each point.
    """
    rows = []
    for each in _by_point(trials, repeats):
        sound = [trial for trial in each if trial.state == "finished"]
        failed = sum(trial.state == "failed" for trial in each)
        row: dict[str, Any] = {"point": each[0].point, "words": each[0].words}
        row |= {"n": len(sound), "failed": failed}
        row["stopped"] = [
            {"seed": t.seed, "panel": t.panel, **(t.stopped or {}), "run": str(t.run.path)}
            for t in each
            if t.state == "stopped"
        ]
        row["runs"] = [str(trial.run.path) for trial in sound]
        for key in MEASURES:
            found = (measure(trial.run.metrics(), key) for trial in sound)
            values = [value for value in found if not np.isnan(value)]
            row[key] = {
                "mean": float(np.mean(values)) if values else None,
                "half_width": half_width(values) if len(values) > 1 else None,
                "values": values,
            }
        rows.append(row)
    return rows


def write_table(rows: Sequence[Mapping[str, Any]], folder: RunFolder) -> None:
    """Writes ``sweep.md`` and ``sweep.json``; ± is half of the 95% t interval over runs."""
    names = _columns(rows)
    lines = ["| " + " | ".join(names) + " |", "|" + "---:|" * len(names)]
    lines += ["| " + " | ".join(_cells(row, names)) + " |" for row in rows]
    write_text(folder.path / "sweep.md", "\n".join(lines) + "\n")
    write_text(folder.path / "sweep.json", json.dumps(list(rows), indent=2) + "\n")


def as_rich(rows: Sequence[Mapping[str, Any]]) -> Table:
    """The rows as a table for the terminal."""
    from rich.text import Text

    table = terminal_table()
    names = _columns(rows)
    for name in names:
        fold = name in rows[0]["point"] or name == "stopped early"
        table.add_column(
            Text(name.replace(", ", ",\n")),
            justify="left" if fold else "right",
            overflow="fold",
            no_wrap=not fold,
        )
    for row in rows:
        table.add_row(*map(Text, _cells(row, names)))
    return table


def draw_sweep(trials: Sequence[Trial], folder: RunFolder) -> bool:
    """Draws ``sweep.png`` from the finished trials; False when there is none."""
    runs = curves(trials)
    if not runs:
        return False
    settings = RunSettings.resolve(trials[0].run.read_config(), "trial")
    panel = panel_words(settings.run.env_config, settings.train_split, settings.evaluation_split)
    title = f"{folder.name}: {settings.run.env}"
    draw_comparison(runs, folder.path / "sweep.png", title, panel)
    return True


def curves(trials: Sequence[Trial]) -> dict[str, list[list[dict[str, Any]]]]:
    """The metrics of the finished trials by their points in words; equal points are one."""
    runs: dict[str, list[list[dict[str, Any]]]] = {}
    for trial in trials:
        if trial.state == "finished":
            runs.setdefault(joined(trial.words), []).append(trial.run.metrics())
    return runs


def _by_point(trials: Sequence[Trial], repeats: int) -> list[list[Trial]]:
    """The trials of each point, which stand one after the other; two points may be equal."""
    return [list(trials[k : k + repeats]) for k in range(0, len(trials), repeats)]


def measure(rows: Sequence[Mapping[str, Any]], key: str) -> float:
    """A metric of a run so far: its last evaluation, or the mean of its last 5 iterations."""
    values = [row[key] for row in rows if row.get(key) is not None]
    last = values[-1:] if key.startswith("evaluation/") else values[-5:]
    return float(np.mean(last)) if last else float("nan")


def _columns(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    stopped = ["stopped early"] if any(row["stopped"] for row in rows) else []
    return [*rows[0]["point"], "runs", *MEASURES.values(), "failed", *stopped]


def _cells(row: Mapping[str, Any], columns: Sequence[str]) -> list[str]:
    measures = [_cell(row[key]) for key in MEASURES]
    cells = [*row["words"].values(), str(row["n"]), *measures, str(row["failed"])]
    if "stopped early" in columns:
        cells.append("; ".join(map(_reached, row["stopped"])) or "-")
    return cells


def _reached(stop: Mapping[str, Any]) -> str:
    rollouts = "?" if stop["trajectories"] is None else f"{stop['trajectories']:,.0f}"
    return (
        f"iteration {stop['iteration']}, {rollouts} rollouts, {stop['metric']} {stop['value']:.3g}"
    )


def _stop_words(stop: Mapping[str, Any]) -> str:
    return f"stopped early: {_reached(stop)}"


def _cell(measure: Mapping[str, Any]) -> str:
    if measure["mean"] is None:
        return "-"
    half = measure["half_width"]
    spread = "" if half is None else f" ± {half:.1%}"
    return f"{measure['mean']:.1%}{spread}"
