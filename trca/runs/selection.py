"""The selection of a run's checkpoint, for reports.

``last`` is the checkpoint of the last iteration, independent of any metric. ``best`` has the
highest success of the evaluations during training. The maximum of several noisy values is biased
upwards: of five checkpoints that all solve 45% of tasks, the best shows 52% on average on 64 tasks.
A report about ``best`` therefore uses tasks outside the selection, or states how many tasks are
inside.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from trca.tune_configs.files import ConfigError

if TYPE_CHECKING:
    from trca.envs.panel import Panel
    from trca.runs.folder import RunFolder, Which

_HELD_OUT: Final = "evaluation/success_rate"
_TRAINING: Final = "success_rate"

Rows = Sequence[Mapping[str, Any]]
"""A run's metrics, one mapping per iteration."""


@dataclass(frozen=True)
class Selection:
    """The selection of a checkpoint.

    Attributes:
        metric: The selection metric; empty for ``last``.
        value: Value of the metric at the checkpoint.
        candidates: Number of iterations with the metric.
        panel: Record of the metric's panel, as in ``panels.json``.
    """

    which: Which
    iteration: int
    metric: str = ""
    value: float = 0.0
    candidates: int = 0
    panel: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, run: RunFolder, which: Which) -> Selection:
        """Reads the selection of a checkpoint from the metrics and panels of its run.

        Raises a `ConfigError` without a checkpoint, or if the files do not contain the selection.
        """
        iteration = run.checkpoint_iteration(which)
        if which == "last":
            return cls(which, iteration)
        rows = run.metrics()
        metric = selection_metric(rows)
        values = {row["iteration"]: row[metric] for row in rows if metric in row}
        if not values:
            return cls(which, iteration)
        name = "evaluation" if metric == _HELD_OUT else "train"
        panel = (run.read_json("panels.json") or {}).get(name)
        if iteration not in values or panel is None:
            raise ConfigError(
                f"metrics.jsonl and panels.json of {run.path} do not show why iteration"
                f" {iteration} is the best: use {run.address}@last"
            )
        return cls(which, iteration, metric, values[iteration], len(values), panel)

    def overlap(self, panel: Panel) -> list[str]:
        """Returns the task ids of a panel that took part in the selection.

        With a single candidate there was no selection, and the list is empty.
        """
        record = self.panel or {}
        place = record.get("environment"), record.get("split")
        if self.candidates < 2 or place != (panel.environment, panel.split):
            return []
        selecting = frozenset(record["task_ids"])
        return [task_id for task_id in panel.task_ids if task_id in selecting]

    def others(self, panel: Panel) -> Panel:
        """Returns a panel without the tasks of the selection; `ConfigError` if no task is left."""
        selecting = frozenset(self.overlap(panel))
        left = tuple(task_id for task_id in panel.task_ids if task_id not in selecting)
        if not left:
            raise ConfigError(
                f"all {len(selecting)} tasks of {panel.split} selected the {self.which} checkpoint,"
                " and its success on these tasks is likely too high: use another --split, or report"
                " RUN@last"
            )
        return type(panel)(panel.environment, panel.split, left)

    def words(self) -> str:
        """Describes the selection in a sentence."""
        name = f"{self.which}, iteration {self.iteration}"
        if self.panel is None:
            return f"{name}: selected without a metric"
        value = f"{self.metric} ({self.value:.1%})"
        tasks = f"panel {self.panel['hash']} ({self.panel['split']}, {self.panel['tasks']} tasks)"
        if self.candidates < 2:
            return f"{name}: the only iteration with {value}, on {tasks}"
        return f"{name}: the highest {value} of {self.candidates} iterations, on {tasks}"

    def words_for(self, panel: Panel) -> str:
        """Describes the selection, with the number of tasks of a panel that took part in it."""
        if self.candidates < 2:
            return self.words()
        shared, count = len(self.overlap(panel)), len(panel.task_ids)
        caution = "; success on these tasks is likely too high" if shared else ""
        overlap = f"{shared} of the {count} tasks of this report selected the checkpoint"
        return f"{self.words()}; {overlap}{caution}"

    def record(self, panel: Panel) -> dict[str, Any]:
        """Returns the selection as plain data, for a report about a panel."""
        checkpoint: dict[str, Any] = {"which": self.which, "iteration": self.iteration}
        if self.panel is None:
            return checkpoint
        return checkpoint | {
            "metric": self.metric,
            "value": self.value,
            "candidates": self.candidates,
            "panel": {k: self.panel[k] for k in ("hash", "environment", "split", "tasks")},
            "tasks_in_this_report": len(self.overlap(panel)),
        }


def selection_metric(rows: Rows) -> str:
    """Returns the selection metric: held-out success, or training success without evaluations."""
    return _HELD_OUT if any(_HELD_OUT in row for row in rows) else _TRAINING


def is_best(rows: Rows) -> bool:
    """Whether the last row has the highest value so far.

    Of equal rows the newest is the best, and of rows without any value.
    """
    metric = selection_metric(rows)
    values = [row[metric] for row in rows if metric in row]
    return not values or (metric in rows[-1] and bool(rows[-1][metric] >= max(values)))
