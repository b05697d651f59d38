"""The trials of a sweep: names, run folders, and the words of their points."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from trca.algorithms.settings.sweeps import SweepSettings
from trca.runs.folder import RunFolder
from trca.runs.names import STOPPED, TRIALS
from trca.runs.provenance import versions
from trca.tune_configs.files import map_texts, path_parts

OVER: Final = frozenset({"finished", "stopped"})
"""States of trials that are not run again."""


@dataclass(frozen=True)
class Trial:
    """One point with one seed on one panel.

    Attributes:
        point: The settings of the point.
        words: The values of the point in words, from `point_words`.
        panel: The panel in words; blank if the sweep names no panels.
        seed: The seed.
        run: The run folder, which may not exist yet.
    """

    point: dict[str, Any]
    words: dict[str, str]
    panel: str
    seed: int
    run: RunFolder

    @property
    def number(self) -> int:
        """The number in the sweep, from 1."""
        return _number(self.run.path)

    @property
    def stopped(self) -> dict[str, Any] | None:
        """Iteration, trajectories, metric and value of an early stop; `None` without one."""
        stopped: dict[str, Any] | None = self.run.read_json(STOPPED)
        return stopped

    @property
    def state(self) -> str:
        """``waiting``, ``stopped`` after an early stop, or the state of the run."""
        if self.stopped:
            return "stopped"
        return str(self.run.status().get("state", "waiting"))

    @property
    def reason(self) -> str:
        """Why the trial has not ended."""
        if not (status := self.run.status()):
            return "it did not start"
        return status["message"] or f"its process ended after iteration {status['iteration']}"


def point_words(points: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """The values of points in words.

    A path is its file name, with folders if two files have one name.
    """
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
    """The absolute paths in the values of a point."""
    paths: set[Path] = set()

    def note(text: str) -> str:
        path, _ = path_parts(text)
        if path is not None and path.is_absolute():
            paths.add(path)
        return text

    map_texts(list(point.values()), note)
    return paths


def _shortest(path: Path, others: set[Path]) -> str:
    """The fewest last parts of a path with which no other path ends."""
    for count in range(1, len(path.parts)):
        end = path.parts[-count:]
        if all(other.parts[-count:] != end for other in others):
            return "/".join(end)
    return str(path)


def begin(sweep: SweepSettings, folder: RunFolder) -> None:
    """Writes a sweep's settings and versions; runs nothing."""
    folder.write_json("versions.json", versions())
    folder.write_settings(sweep.with_base().model_dump())


def trial_names(
    sweep: SweepSettings, points: Sequence[Mapping[str, Any]], first: int = 0
) -> dict[int, str]:
    """The names of the trials of some points, by number.

    Args:
        sweep: The sweep.
        points: The points.
        first: The number of the first point.
    """
    all_of_them = itertools.product(point_words(points), point_words(sweep.panels), sweep.seeds)
    names = {}
    for number, (words, where, seed) in enumerate(all_of_them, first * sweep.repeats + 1):
        named = {**words, **where}
        parts = [f"{key.split('.')[-1].strip('_')}-{value}" for key, value in named.items()]
        slug = re.sub(r"[^\w.+-]+", "-", "_".join([*parts, f"seed-{seed}"]))[:80]
        names[number] = f"{number:03d}_{slug}"
    return names


def read_trials(sweep: SweepSettings, folder: RunFolder) -> list[Trial]:
    """The planned trials of a sweep; with a search the started trials."""
    about = {}
    if folder.storage:
        folder.storage.pull_trials(folder.name)
    if sweep.search:
        for path in (folder.path / TRIALS).glob("*/trial.json"):
            about[path.parent] = json.loads(path.read_text("utf-8"))
    else:
        points = sweep.every_point()
        names = trial_names(sweep, points)
        all_of_them = itertools.product(points, sweep.each_pair())
        for name, (point, pair) in zip(names.values(), all_of_them, strict=True):
            about[folder.path / TRIALS / name] = {"point": point, **pair}
    paths = sorted(about, key=_number)
    words = point_words([about[path]["point"] for path in paths])
    panels = [joined(each) for each in point_words([about[path]["panel"] for path in paths])]
    return [
        Trial(about[path]["point"], named, panel, about[path]["seed"], folder.trial(path.name))
        for path, named, panel in zip(paths, words, panels, strict=True)
    ]


def _number(trial: Path) -> int:
    return int(trial.name.partition("_")[0])


def by_point(trials: Sequence[Trial], repeats: int) -> dict[int, list[Trial]]:
    """The trials of each point by its number, from 0; two points may have equal settings."""
    points: dict[int, list[Trial]] = {}
    for trial in trials:
        points.setdefault((trial.number - 1) // repeats, []).append(trial)
    return points
