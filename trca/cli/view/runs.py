"""The data of recorded runs that the page requests."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from trca.cli.view.index import RolloutIndex, index_of
from trca.common.registry import short_name
from trca.runs.refusals import quoted
from trca.runs.rollout_files import iteration_files, load_library
from trca.tune_configs.run_parameters import method_name

if TYPE_CHECKING:
    from trca.cli.view.details import Details
    from trca.runs.folder import RunFolder

KINDS: Final = ("train", "eval")
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


class RecordedRun:
    """The recorded rollouts of a run folder. Only `group` loads PyTorch and Ray.

    Attributes:
        folder: The run.
    """

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        self._lock, self._indexing = Lock(), Lock()

    def about(self) -> dict[str, Any]:
        """Name, recorded iterations by kind, operators with their meanings, and metrics."""
        config = self.folder.read_config()
        rows = self.folder.metrics()
        names = [*_CURVES, *sorted({n for row in rows for n in row if n.startswith(_OPERATOR)})]
        return {
            "name": self.folder.name,
            "algorithm": method_name(config),
            "env": short_name(str(config.get("env", ""))),
            "iterations": {kind: sorted(self._paths(kind)) for kind in KINDS},
            "operators": self._meanings(),
            "metrics": {name: [_finite(row.get(name)) for row in rows] for name in names},
        }

    def index(self, kind: str, iteration: int) -> RolloutIndex:
        """The rollouts of an iteration.

        Raises:
            KeyError: If the iteration is not recorded.
            ValueError: If the file cannot be read.
        """
        path = self._paths(kind)[iteration]
        with self._indexing:
            return index_of(path)

    def index_first(self) -> None:
        """Indexes the iteration that the page shows first. The request for it raises the errors."""
        if paths := self._paths(KINDS[0]):
            with suppress(ValueError, OSError):
                self.index(KINDS[0], max(paths))

    def groups(self, kind: str, iteration: int, start: int, count: int) -> dict[str, Any]:
        """Part of the list of groups. Raises the errors of `index`."""
        index = self.index(kind, iteration)
        return {
            "total": len(index.groups),
            "operators": index.operators,
            "groups": index.groups[start : start + count],
        }

    def group(self, kind: str, iteration: int, number: int) -> dict[str, Any]:
        """All data of a group. Raises the errors of `index`, or KeyError for an empty group.

        Each rollout has the key ``inspect``: the command that shows the rollout in a terminal.
        """
        from trca.records import from_json

        index = self.index(kind, iteration)
        rollouts = [from_json(line) for line in index.lines(number)]
        if not rollouts:
            raise KeyError(number)
        with self._lock:  # threads cannot share the judge
            group = self.details.of(rollouts)
        for rollout, place in zip(group["rollouts"], index.numbers(number), strict=True):
            rollout["inspect"] = self._inspect(kind, iteration, place)
        return group

    def load(self) -> None:
        """Loads the parts that `group` needs, which takes seconds."""
        import trca.records  # noqa: F401

        with self._lock:
            self.details.load()

    @cached_property
    def details(self) -> Details:
        """Describes groups; imports PyTorch and Ray."""
        from trca.algorithms.settings.parameters import TextParameters
        from trca.cli.view.details import Details

        source = f"{self.folder.name}/config.yaml"
        settings = TextParameters.resolve(self.folder.read_config(), source, need_data=False)
        return Details(settings)

    def _inspect(self, kind: str, iteration: int, number: int) -> str:
        """The command that shows a rollout, by the number of the rollout in its file."""
        evaluation = " --evaluation" if kind == "eval" else ""
        name = quoted(self.folder.name)
        return f"trca inspect {name} --iteration {iteration} --rollout {number}{evaluation}"

    def _paths(self, kind: str) -> dict[int, Path]:
        return iteration_files(self.folder, f"{kind}.jsonl")

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


def every_group(run: RecordedRun, kind: str, iteration: int) -> Iterator[dict[str, Any]]:
    """The data of all groups of an iteration that have a rollout; see `RecordedRun.group`."""
    for group in run.index(kind, iteration).groups:
        if group["rollouts"]:
            yield run.group(kind, iteration, group["group"])


def _finite(value: Any) -> float | None:
    number = isinstance(value, int | float) and math.isfinite(value)
    return float(value) if number else None
