"""Sweep files by name or path, and their trials: names, run folders, points in words."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from trca.algorithms.settings.sweeps import SweepSettings
from trca.runs import STOPPED, TRIALS
from trca.runs.folder import RunFolder, run_name
from trca.tune_configs.files import (
    ConfigError,
    assignments,
    map_texts,
    path_parts,
    read,
    shipped,
)

_FOLDER: Final = "sweeps/"
_KEYS: Final = frozenset({"base", "seeds"})
"""Keys of a sweep that no run has."""
OVER: Final = frozenset({"finished", "stopped"})
"""States of trials that are not run again."""


def shipped_sweeps() -> dict[str, str]:
    """The question of each sweep of the package by its name: the first line of its file."""
    sweeps = {name: path for name, path in shipped().items() if name.startswith(_FOLDER)}
    lines = {name: path.read_text("utf-8").splitlines()[0] for name, path in sweeps.items()}
    return {name: line.removeprefix("# ") for name, line in lines.items()}


def is_sweep(settings: Mapping[str, Any]) -> bool:
    """Whether settings belong to a sweep; else they belong to a run."""
    return not _KEYS.isdisjoint(settings)


def sweep_of(
    name_or_path: str,
    changes: Iterable[str] | None,
    need_data: bool = True,
    base: str | None = None,
) -> SweepSettings:
    """The sweep of a file, with changes ``KEY=VALUE`` of its ``set``.

    Args:
        name_or_path: A name of `shipped_sweeps`, or the path of a YAML file.
        changes: The changes.
        need_data: Whether missing official data is an error.
        base: A config in place of the file's ``base``, by name or path. The file's ``set`` and
            ``panels`` are for its own base: the sweep does not have them.

    Raises:
        ConfigError: For a missing file, the config of a run, and wrong settings. The message names
            the sweeps of the package, or the key, its value and the allowed values.
    """
    sweeps = shipped_sweeps()
    width = max(map(len, sweeps))
    rows = [f"  {name:{width}}  {question}" for name, question in sweeps.items()]
    names = "\n".join(["one of these names:", *rows])
    named = name_or_path.removesuffix(".yaml") in shipped()
    if not named and not Path(name_or_path).expanduser().is_file():
        raise ConfigError(f"no sweep {name_or_path!r}: give the path of a YAML file, or {names}")
    data = read(name_or_path)
    if not is_sweep(data):
        raise ConfigError(
            f"{name_or_path} is the config of a run: trca train {name_or_path} runs it. For a"
            f" sweep give a file with base and seeds, or {names}"
        )
    if base is not None:
        if is_sweep(other := read(base)):
            raise ConfigError(f"--base {base} is a sweep: give the config of a run")
        data = {k: v for k, v in data.items() if k not in ("set", "panels")} | {"base": other}
    if isinstance(before := data.get("set") or {}, dict):
        data["set"] = before | assignments(changes or [])
    return SweepSettings.resolve(data, run_name(name_or_path), need_data)


@dataclass(frozen=True)
class Trial:
    """One point with one seed on one panel.

    Attributes:
        words: The values of the point in words, from `point_words`.
        panel: The panel in words; empty if the sweep names no panels.
        panel_settings: The settings of the panel.
        run: The run folder, which may not exist yet.
    """

    point: dict[str, Any]
    words: dict[str, str]
    panel: str
    panel_settings: dict[str, Any]
    seed: int
    run: RunFolder

    @property
    def number(self) -> int:
        """The number in the sweep, from 1."""
        return int(self.run.path.name.partition("_")[0])

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


def planned(
    sweep: SweepSettings, points: Sequence[Mapping[str, Any]], first: int = 0
) -> list[dict[str, Any]]:
    """The trials of some points in order, as values for Ray Tune; ``first`` is the first number.

    A value has ``name``, ``label``, ``number`` of the point, ``point``, ``panel`` and ``seed``.
    """
    named = enumerate(zip(points, point_words(points), strict=True), first)
    panels = zip(sweep.panels, point_words(sweep.panels), strict=True)
    every = itertools.product(named, panels, sweep.seeds)
    trials: list[dict[str, Any]] = []
    for (number, (point, words)), (panel, where), seed in every:
        both = {**words, **where}
        parts = [f"{key.split('.')[-1].strip('_')}-{value}" for key, value in both.items()]
        slug = re.sub(r"[^\w.+-]+", "-", "_".join([*parts, f"seed-{seed}"]))[:80]
        trials.append(
            {
                "name": f"{first * sweep.repeats + len(trials) + 1:03d}_{slug}",
                "label": "  ".join(filter(None, (joined(words), joined(where), f"seed={seed}"))),
                "number": number,
                "point": dict(point),
                "panel": panel,
                "seed": seed,
            }
        )
    return trials


def read_trials(sweep: SweepSettings, folder: RunFolder) -> list[Trial]:
    """The planned trials of a sweep; with a search the started trials."""
    if folder.storage:
        folder.storage.pull_trials(folder.name)
    if sweep.search:
        paths = (folder.path / TRIALS).glob("*/trial.json")
        runs = [folder.trial(path.parent.name) for path in paths]
        trials = [run.read_json("trial.json") | {"name": run.path.name} for run in runs]
        trials.sort(key=lambda trial: int(trial["name"].partition("_")[0]))
    else:
        trials = planned(sweep, sweep.every_point())
    words = point_words([each["point"] for each in trials])
    panels = [joined(each) for each in point_words([each["panel"] for each in trials])]
    return [
        Trial(each["point"], named, panel, each["panel"], each["seed"], folder.trial(each["name"]))
        for each, named, panel in zip(trials, words, panels, strict=True)
    ]


def by_point(trials: Sequence[Trial], repeats: int) -> dict[int, list[Trial]]:
    """The trials of each point by its number, from 0; two points may have equal settings."""
    points: dict[int, list[Trial]] = {}
    for trial in trials:
        points.setdefault((trial.number - 1) // repeats, []).append(trial)
    return points


def point_words(points: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """The values of points in words: a path is its file name, with folders if names are equal."""
    paths: set[Path] = set()

    def note(text: str) -> str:
        path, _ = path_parts(text)
        if path is not None and path.is_absolute():
            paths.add(path)
        return text

    def short(text: str) -> str:
        path, rest = path_parts(text)
        if path not in paths:
            return text
        for count in range(1, len(path.parts)):
            end = path.parts[-count:]
            if all(other.parts[-count:] != end for other in paths - {path}):
                return "/".join(end) + rest
        return text

    map_texts([list(point.values()) for point in points], note)
    return [{key: _words(map_texts(value, short)) for key, value in p.items()} for p in points]


def _words(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_words(each)}" for key, each in value.items())
    return str(float(f"{value:.6g}") if isinstance(value, float) else value)


def joined(words: Mapping[str, str]) -> str:
    """The words of a point as ``lambda_=0.8  lr=0.0004``."""
    return "  ".join(f"{key}={value}" for key, value in words.items())
