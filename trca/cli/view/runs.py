"""The data of recorded runs that the page requests."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from operator import eq
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from trca.common.files import FileVersion, versions
from trca.common.registry import short_name
from trca.runs.folder import quoted
from trca.runs.rollout_files import Kind, iteration_files, load_library
from trca.tune_configs.run_parameters import method_name

if TYPE_CHECKING:
    from trca.cli.view.details import Details
    from trca.runs.folder import RunFolder

KINDS: Final[tuple[Kind, ...]] = ("train", "eval")
"""Kinds of rollouts: training and held-out evaluation."""
_CURVES: Final = (
    "iteration",
    "trajectories",
    "success_rate",
    "evaluation/success_rate",
    "foundational_reward",
    "breakthrough_reward",
)
_OPERATOR: Final = "operators/"


@dataclass
class Listing:
    """The rollouts of one file, by groups in the order of the file.

    Attributes:
        operators: Ids of the operators that fired in any rollout.
        groups: The list entry of each group, as plain JSON types: ``group``, ``task``,
            ``type``, ``missing`` (number of missing rollouts), and ``rollouts``, each with
            ``index``, ``agent``, ``won``, ``score``, ``steps``, ``foundational`` and
            ``breakthrough`` (sums of r^F and r^B) and ``fired`` (places in ``operators``).
        numbers: The numbers of the rollouts of each group in the file, which ``trca inspect
            --rollout`` takes.
    """

    operators: list[str] = field(default_factory=list)
    groups: list[dict[str, Any]] = field(default_factory=list)
    numbers: dict[int, list[int]] = field(default_factory=dict)


class RecordedRun:
    """The recorded rollouts of a run folder. Only `group` loads PyTorch and Ray.

    Attributes:
        folder: The run.
    """

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        self._lock, self._indexing = Lock(), Lock()

    def version(self) -> object:
        """A value that changes with the metrics and with the recorded iterations."""
        files = [iteration_files(self.folder, kind) for kind in KINDS]
        return files, versions(self.folder.path / "metrics.jsonl")

    def reached(self, kind: Kind) -> dict[int, float]:
        """Trajectories at the end of each recorded iteration, as far as metrics are written."""
        rows = self.folder.metrics()
        numbers = [row["iteration"] for row in rows]
        counts = [0, *(row.get("trajectories") or 0 for row in rows)]
        files = sorted(iteration_files(self.folder, kind))
        return {iteration: counts[bisect_right(numbers, iteration)] for iteration in files}

    def about(self) -> dict[str, Any]:
        """Name, recorded iterations by kind, operators with their meanings, and metrics."""
        config = self.folder.read_config()
        rows = self.folder.metrics()
        names = [*_CURVES, *sorted({n for row in rows for n in row if n.startswith(_OPERATOR)})]
        return {
            "name": self.folder.name,
            "algorithm": method_name(config),
            "env": short_name(str(config.get("env", ""))),
            "iterations": {kind: sorted(iteration_files(self.folder, kind)) for kind in KINDS},
            "operators": self._meanings(),
            "metrics": {name: [_finite(row.get(name)) for row in rows] for name in names},
        }

    def index(self, kind: Kind, iteration: int) -> Listing:
        """The rollouts of an iteration.

        Raises:
            KeyError: If the iteration is not recorded.
            ValueError: If the file cannot be read.
        """
        path = iteration_files(self.folder, kind)[iteration]
        with self._indexing:
            return _listing(path, versions(path))

    def groups(self, kind: Kind, iteration: int) -> dict[str, Any]:
        """The list of groups. Raises the errors of `index`."""
        index = self.index(kind, iteration)
        return {"operators": index.operators, "groups": index.groups}

    def group(self, kind: Kind, iteration: int, number: int) -> dict[str, Any]:
        """All data of a group. Raises the errors of `index`, or KeyError for an empty group.

        Each rollout has the key ``inspect``: the command that shows the rollout in a terminal.
        """
        from trca.records.store import from_table, read_table

        numbers = self.index(kind, iteration).numbers[number]
        rollouts = from_table(
            read_table(iteration_files(self.folder, kind)[iteration], group=number)
        )
        with self._lock:  # threads cannot share the judge
            group = self.details.of(rollouts)
        command = f"trca inspect {quoted(self.folder.name)} --iteration {iteration} --rollout"
        evaluation = " --evaluation" if kind == "eval" else ""
        for rollout, place in zip(group["rollouts"], numbers, strict=True):
            rollout["inspect"] = f"{command} {place}{evaluation}"
        return group

    def load(self) -> None:
        """Loads the parts that `group` needs, which takes seconds; `group` raises the errors."""
        with self._lock, suppress(Exception):
            self.details.load()

    @cached_property
    def details(self) -> Details:
        """Describes groups; imports PyTorch and Ray."""
        from trca.algorithms.settings.parameters import TextParameters
        from trca.cli.view.details import Details

        source = f"{self.folder.name}/config.yaml"
        settings = TextParameters.resolve(self.folder.read_config(), source, need_data=False)
        return Details(settings)

    def _meanings(self) -> list[dict[str, str]]:
        """Id, category and description of each operator; none where nothing judges the run."""
        config = self.folder.read_config()
        try:
            library = load_library(config["env"], config.get("env_config") or {})
        except (ValueError, KeyError, ImportError, OSError):
            return []
        fields = ("id", "category", "description")
        operators = library.operators if library else ()
        return [{name: getattr(each, name) for name in fields} for each in operators]


def stops(runs: Sequence[RecordedRun], kind: Kind) -> list[dict[str, Any]]:
    """The recorded iterations that the page shows together, in order.

    With every iteration of a run, the page shows the iterations of the other runs that have the
    nearest number of trajectories. Without metrics, iterations are compared by number.

    Returns:
        For each stop ``at``, the iteration of each run (None for a run without rollouts);
        ``reached``, their trajectories; and ``start``: whether the page opens here, at the best
        match for the end of a run.
    """
    reached = [run.reached(kind) for run in runs]
    counted = all(any(counts.values()) for counts in reached)
    places = reached if counted else [{i: float(i) for i in counts} for counts in reached]
    gaps: dict[tuple[int | None, ...], float] = {}
    for own in places:
        for iteration, place in own.items():
            at = [iteration if each is own else _nearest(each, place) for each in places]
            shown = [each[i] for each, i in zip(places, at, strict=True) if i is not None]
            gaps[tuple(at)] = max(shown) - min(shown)
    ordered = sorted(gaps, key=lambda at: [i or 0 for i in at])
    lasts = [max(each, default=0) for each in places]
    ends = [at for at in reversed(ordered) if any(map(eq, at, lasts))]
    start = min(ends, key=gaps.__getitem__, default=None)
    return [
        {
            "at": at,
            "reached": [counts.get(i or 0) for counts, i in zip(reached, at, strict=True)],
            "start": at == start,
        }
        for at in ordered
    ]


def _nearest(places: dict[int, float], place: float) -> int | None:
    return min(places, key=lambda i: (abs(places[i] - place), i), default=None)


@lru_cache(maxsize=64)
def _listing(path: Path, file: tuple[FileVersion, ...]) -> Listing:
    """The rollouts of a file. A version of the file is read once."""
    from trca.records.store import failures_of, read_table, summaries

    listing, groups, places = Listing(), dict[int, dict[str, Any]](), dict[str, int]()

    def group_of(number: int, task: str) -> dict[str, Any]:
        new = {"group": number, "task": task, "type": "", "missing": 0, "rollouts": []}
        return groups.setdefault(number, new)

    for number, summary in enumerate(summaries(path)):
        group = group_of(summary.pop("group"), summary.pop("task_id"))
        group["type"] = summary.pop("task_type")
        fired = [places.setdefault(name, len(places)) for name in summary["fired"]]
        summary |= {"agent": summary.pop("agent_id"), "fired": fired}
        group["rollouts"].append(summary)
        listing.numbers.setdefault(group["group"], []).append(number)
    for failure in failures_of(read_table(path, [])):
        group_of(failure.group, failure.task_id)["missing"] += failure.rollouts
    listing.operators, listing.groups = list(places), list(groups.values())
    return listing


def _finite(value: Any) -> float | None:
    number = isinstance(value, int | float) and math.isfinite(value)
    return float(value) if number else None
