"""The trials of a sweep: a run folder each, and the words of their points."""

from __future__ import annotations

import itertools
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from trca.runs.folder import RunFolder
from trca.runs.names import STOPPED
from trca.runs.provenance import versions
from trca.tune_configs.files import ConfigError, map_texts, path_parts
from trca.tune_configs.sweeps import SweepSettings

OVER: Final = frozenset({"finished", "stopped"})
"""States of trials that are not run again."""


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
        stopped: dict[str, Any] | None = self.run.read_json(STOPPED)
        return stopped

    @property
    def state(self) -> str:
        """``waiting``, ``stopped`` where a scheduler stopped it, or the state of the run."""
        if self.stopped:
            return "stopped"
        return str(self.run.status().get("state", "waiting"))


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
    folder.write_json("versions.json", versions())
    folder.write_settings(sweep.with_base().model_dump())
    if not sweep.search:
        make_trials(sweep, folder)


def make_trials(sweep: SweepSettings, folder: RunFolder) -> list[Trial]:
    """Makes the run folder of every trial of a sweep without a search."""
    make_points(sweep, folder, sweep.every_point(), first=0)
    return read_trials(folder)


def make_points(
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
        if any((folder.path / "trials").glob(f"{number:03d}_*/trial.json")):
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


def by_point(trials: Sequence[Trial], repeats: int) -> dict[int, list[Trial]]:
    """The trials of each point by its number, from 0 on; two points may be equal."""
    points: dict[int, list[Trial]] = {}
    for trial in trials:
        points.setdefault((trial.number - 1) // repeats, []).append(trial)
    return points
