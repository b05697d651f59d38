"""A sweep: every trial is a run of its own, in a process of its own, a few side by side.

A trial that fails or is stopped leaves the others alone. All trials share one Ray.
"""

from __future__ import annotations

import ctypes
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from trca.cli.curve import draw_comparison, panel_words
from trca.cli.run_folder import RunFolder
from trca.cli.tables import half_width, terminal_table
from trca.common.files import write_text
from trca.tune_configs.files import ConfigError, map_texts, path_parts
from trca.tune_configs.settings import RunSettings

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from trca.tune_configs.sweeps import SweepSettings

MEASURES: Final = {
    "evaluation/success_rate": "success, held out",
    "success_rate": "success, training, last 5",
}
"""Metrics of the table, with the words of its columns."""
_SECONDS_BETWEEN_LOOKS: Final = 0.2
_DIE_WITH_PARENT: Final = 1  # PR_SET_PDEATHSIG
_LIBC: Final = ctypes.CDLL(None) if sys.platform == "linux" else None


@dataclass(frozen=True)
class Trial:
    """One point of the grid with one seed.

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
    def label(self) -> str:
        """The point, the panel and the seed in words."""
        panel = f"  {self.panel}" if self.panel else ""
        return f"{joined(self.words)}{panel}  seed={self.seed}"

    @property
    def state(self) -> str:
        """``waiting``, or the state of the run."""
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
        return ", ".join(f"{key} {each}" for key, each in value.items())
    return str(value)


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


def make_trials(sweep: SweepSettings, folder: RunFolder) -> list[Trial]:
    """Makes the run folder of every trial; nothing is run."""
    points = sweep.points()
    all_of_them = itertools.product(
        zip(points, point_words(points), strict=True),
        zip(sweep.panels, point_words(sweep.panels), strict=True),
        sweep.seeds,
    )
    for number, ((point, words), (panel, where), seed) in enumerate(all_of_them, start=1):
        settings = sweep.trial({**panel, **point}, seed)
        named = {**words, **where}
        parts = [f"{key.split('.')[-1].strip('_')}-{value}" for key, value in named.items()]
        slug = re.sub(r"[^\w.+-]+", "-", "_".join([*parts, f"seed-{seed}"]))[:80]
        run = RunFolder.create(folder.path / "trials", f"{number:03d}_{slug}", numbered=False)
        run.write_settings(settings.flat())
        run.write_json("trial.json", {"point": point, "panel": panel, "seed": seed})
    return read_trials(folder)


def read_trials(folder: RunFolder) -> list[Trial]:
    """The trials of a sweep's folder.

    Raises:
        ConfigError: When the folder is no sweep.
    """
    runs = [RunFolder(p.parent) for p in sorted((folder.path / "trials").glob("*/trial.json"))]
    if not runs:
        raise ConfigError(f"{folder.path} is no sweep: go on with a run by trca train --resume")
    about = [run.read_json("trial.json") for run in runs]
    words = point_words([each["point"] for each in about])
    panels = [joined(each) for each in point_words([each.get("panel", {}) for each in about])]
    return [
        Trial(each["point"], named, panel, each["seed"], run, run.read_config()["iterations"])
        for each, named, panel, run in zip(about, words, panels, runs, strict=True)
    ]


class Sweep:
    """Runs the trials that are left.

    Attributes:
        interrupted: Whether Ctrl-C stopped it.
    """

    def __init__(self, trials: Sequence[Trial], side_by_side: int, console: Console) -> None:
        """Takes the trials.

        Args:
            trials: All trials of the sweep.
            side_by_side: The most trials at a time.
            console: Where to print.
        """
        self.interrupted = False
        self._console = console
        self._side_by_side = side_by_side
        self._waiting = [trial for trial in trials if trial.state != "finished"]
        self._running: dict[subprocess.Popen[bytes], Trial] = {}
        self._rows_shown = {trial.run.path: len(trial.run.metrics()) for trial in trials}

    def run(self) -> None:
        """Runs until every trial ended.

        The first Ctrl-C stops each trial after its iteration; the second stops all at once.
        """
        try:
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
        while self._waiting and len(self._running) < self._side_by_side:
            trial = self._waiting.pop(0)
            self._running[_start(trial)] = trial
        time.sleep(_SECONDS_BETWEEN_LOOKS)
        for process, trial in list(self._running.items()):
            ended = process.poll() is not None
            self._show(trial)
            if ended:
                del self._running[process]
                self._say_end(trial, process.returncode)

    def _stop(self) -> None:
        if self.interrupted:
            raise KeyboardInterrupt
        self.interrupted = True
        self._waiting.clear()
        self._console.print("stopping after the running iterations; Ctrl-C again stops at once")
        for process in self._running:
            process.send_signal(signal.SIGINT)

    def _show(self, trial: Trial) -> None:
        rows = trial.run.metrics()
        for row in rows[self._rows_shown[trial.run.path] :]:
            held_out = row.get("evaluation/success_rate")
            shown = "" if held_out is None else f"  held out {held_out:.1%}"
            self._console.print(
                f"{trial.label}  iteration {row['iteration']}/{trial.iterations}  "
                f"success {row.get('success_rate', float('nan')):.1%}{shown}",
                markup=False,
            )
        self._rows_shown[trial.run.path] = max(len(rows), self._rows_shown[trial.run.path])

    def _say_end(self, trial: Trial, code: int) -> None:
        if code == 0 or self.interrupted:
            return
        self._console.print(
            f"{trial.label}  failed: {failure(trial)}. Log: {_log(trial)}",
            markup=False,
            style="red",
        )


def failure(trial: Trial) -> str:
    """Why a trial failed, in words."""
    status = trial.run.read_json("status.json") or {}
    if status.get("state") == "failed" and status.get("message"):
        return str(status["message"])
    log = _log(trial)
    lines = log.read_text("utf-8", "replace").splitlines() if log.exists() else []
    told = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    return told[-1] if told else "the process ended"


def _die_with_parent() -> None:
    if _LIBC is not None:
        _LIBC.prctl(_DIE_WITH_PARENT, signal.SIGKILL)


def _log(trial: Trial) -> Any:
    return trial.run.path / "logs" / "console.log"


def _start(trial: Trial) -> subprocess.Popen[bytes]:
    """Starts ``trca train --resume`` for a trial; it ends when this process is killed."""
    log = _log(trial)
    log.parent.mkdir(exist_ok=True)
    with log.open("ab") as file:
        return subprocess.Popen(
            [sys.executable, "-m", "trca", "train", "--resume", str(trial.run.path.resolve())],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,  # a terminal's Ctrl-C reaches this process alone
            preexec_fn=_die_with_parent,
        )


def run_sweep(trials: Sequence[Trial], side_by_side: int, console: Console) -> bool:
    """Runs what is left of a sweep on one Ray.

    Args:
        trials: All of its trials.
        side_by_side: The most trials at a time.
        console: Where to print.

    Returns:
        Whether Ctrl-C stopped it.
    """
    import ray

    from trca.cli.training import init_ray

    sweep = Sweep(trials, side_by_side, console)
    if os.environ.get("RAY_ADDRESS"):
        sweep.run()
        return sweep.interrupted
    settings = RunSettings.resolve(trials[0].run.read_config(), "trial")
    address = init_ray(side_by_side * (1 + settings.run.resources()[0])).address_info
    os.environ["RAY_ADDRESS"] = address["gcs_address"]
    try:
        sweep.run()
    finally:
        del os.environ["RAY_ADDRESS"]
        ray.shutdown()
    return sweep.interrupted


def summarise(trials: Sequence[Trial]) -> list[dict[str, Any]]:
    """One row a point: its settings, and mean, interval and n of each measure over its runs."""
    rows = []
    for each in _by_point(trials):
        sound = [trial for trial in each if trial.state == "finished"]
        failed = sum(trial.state == "failed" for trial in each)
        row: dict[str, Any] = {"point": each[0].point, "words": each[0].words}
        row |= {"n": len(sound), "failed": failed}
        row["runs"] = [str(trial.run.path) for trial in sound]
        for key in MEASURES:
            values = [value for value in (_measure(t, key) for t in sound) if not np.isnan(value)]
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
    lines += ["| " + " | ".join(_cells(row)) + " |" for row in rows]
    write_text(folder.path / "sweep.md", "\n".join(lines) + "\n")
    write_text(folder.path / "sweep.json", json.dumps(list(rows), indent=2) + "\n")


def as_rich(rows: Sequence[Mapping[str, Any]]) -> Table:
    """The rows as a table for the terminal."""
    from rich.text import Text

    table = terminal_table()
    for name in _columns(rows):
        fold = name in rows[0]["point"]
        table.add_column(
            Text(name.replace(", ", ",\n")),
            justify="left" if fold else "right",
            overflow="fold",
            no_wrap=not fold,
        )
    for row in rows:
        table.add_row(*map(Text, _cells(row)))
    return table


def draw_sweep(trials: Sequence[Trial], folder: RunFolder) -> bool:
    """Draws ``sweep.png`` from the finished trials; False when there is none."""
    runs = {
        joined(each[0].words): [t.run.metrics() for t in each if t.state == "finished"]
        for each in _by_point(trials)
    }
    runs = {name: each for name, each in runs.items() if each}
    if not runs:
        return False
    settings = RunSettings.resolve(trials[0].run.read_config(), "trial")
    panel = panel_words(settings.run.env_config, settings.train_split, settings.evaluation_split)
    title = f"{folder.name}: {settings.run.env}"
    draw_comparison(runs, folder.path / "sweep.png", title, panel)
    return True


def _by_point(trials: Sequence[Trial]) -> list[list[Trial]]:
    points: list[dict[str, Any]] = []
    for trial in trials:
        if trial.point not in points:
            points.append(trial.point)
    return [[trial for trial in trials if trial.point == point] for point in points]


def _measure(trial: Trial, key: str) -> float:
    values = [row[key] for row in trial.run.metrics() if row.get(key) is not None]
    last = values[-1:] if key.startswith("evaluation/") else values[-5:]
    return float(np.mean(last)) if last else float("nan")


def _columns(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return [*rows[0]["point"], "runs", *MEASURES.values(), "failed"]


def _cells(row: Mapping[str, Any]) -> list[str]:
    measures = [_cell(row[key]) for key in MEASURES]
    return [*row["words"].values(), str(row["n"]), *measures, str(row["failed"])]


def _cell(measure: Mapping[str, Any]) -> str:
    if measure["mean"] is None:
        return "-"
    half = measure["half_width"]
    spread = "" if half is None else f" ± {half:.1%}"
    return f"{measure['mean']:.1%}{spread}"
