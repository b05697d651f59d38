"""Runs a sweep: every trial is a run of its own, in a process of its own, a few side by side.

A trial that fails or is stopped leaves the others alone. All trials share one Ray. Where a search
chooses the points, trials are made as it goes (`trca.cli.sweep.tuning`).
"""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from trca.cli.sweep.table import measure, stop_words
from trca.cli.sweep.trials import (
    OVER,
    Trial,
    by_point,
    make_points,
    make_trials,
    point_words,
    read_trials,
)
from trca.cli.sweep.tuning import EarlyStopping, PointSearch, Result
from trca.runs.folder import RunFolder
from trca.runs.names import STOPPED
from trca.tune_configs.files import ConfigError
from trca.tune_configs.sweeps import SweepSettings

if TYPE_CHECKING:
    from rich.console import Console

logger = logging.getLogger(__name__)

_ATTEMPT: Final = "--- trca train --resume"
"""The first line of each attempt in a trial's log."""
_SECONDS_BETWEEN_LOOKS: Final = 0.2
_DIE_WITH_PARENT: Final = 1  # PR_SET_PDEATHSIG
_LIBC: Final = ctypes.CDLL(None) if sys.platform == "linux" else None


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
        self._refused: set[int] = set()
        self._ended = -1
        if not sweep.search:
            make_trials(sweep, folder)  # those that are not there yet, or gone
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
        groups = by_point(trials, self._sweep.repeats)
        for number in range(max(groups) + 1):
            again, group = search.next(lambda _: None), groups.get(number)
            if again is None or (group and point_words([again]) != point_words([group[0].point])):
                raise ConfigError(
                    f"{self._folder.path}: the search gives {again} as point {number + 1} and ran"
                    f" {group[0].point if group else 'more'}: go on with the version of Optuna it"
                    " was started with"
                )
            if group is None or len(group) < self._sweep.repeats:
                self._make(again, number)
            self._points += 1

    def _make(self, point: Mapping[str, Any], number: int) -> None:
        """Makes the trials of a searched point; one that is no settings of a run counts as failed.

        The distributions alone are checked before: two settings may not go together.
        """
        try:
            make_points(self._sweep, self._folder, [point], number)
        except ConfigError as error:
            self._refused.add(number)
            logger.warning("point %d of the search is left out: %s", number + 1, error)

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
            if number in self._refused:
                return Result(None)
            group = [trial for trial in ended if (trial.number - 1) // repeats == number]
            return _result(group, self._sweep.metric) if len(group) == repeats else None

        first = self._points
        while (point := self._search.next(result_of)) is not None:
            self._make(point, self._points)
            self._points += 1
        if self._refused == set(range(self._points)):
            return []
        return [t for t in read_trials(self._folder) if t.number > first * repeats]

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
        trial.run.write_json(STOPPED, {**about, "metric": self._sweep.metric, "value": value})


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
        self._console.print(f"{trial.label}  {stop_words(trial.stopped or {})}", markup=False)

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
    status = trial.run.status()
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
    trials = (sweep.trial(point, sweep.seeds[0]) for point in sweep.every_point())
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

    from trca.cli.run.training import init_ray

    runner = Sweep(trials, tuning, sweep.side_by_side, console)
    if os.environ.get("RAY_ADDRESS"):
        runner.run()
        return runner.interrupted
    cpus = sweep.side_by_side * (1 + most_cpus(sweep))
    address = init_ray(cpus, console.print).address_info
    os.environ["RAY_ADDRESS"] = address["gcs_address"]
    try:
        runner.run()
    finally:
        del os.environ["RAY_ADDRESS"]
        ray.shutdown()
    return runner.interrupted
