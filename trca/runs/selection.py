"""How a checkpoint of a run was chosen, for the reports about it.

``last`` is the checkpoint of the last iteration: no metric chooses it. ``best`` has the highest
success of the evaluations during training. The highest of several noisy numbers is likely too
high: of five checkpoints that all solve 45% of tasks, the best shows 52% on average on 64 tasks. So
a report of ``best`` plays tasks that did not choose it, or counts those that did.
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
"""A run's metrics, one mapping an iteration."""


@dataclass(frozen=True)
class Selection:
    """How a checkpoint was chosen.

    Attributes:
        which: ``best`` or ``last``.
        iteration: The iteration of the checkpoint.
        metric: The metric that chose it; blank for ``last``.
        value: Its value there.
        candidates: Iterations that have the metric.
        panel: Record of the panel that the metric was measured on, as in ``panels.json``.
    """

    which: Which
    iteration: int
    metric: str = ""
    value: float = 0.0
    candidates: int = 0
    panel: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, run: RunFolder, which: Which) -> Selection:
        """Reads how a checkpoint was chosen from the metrics and panels of its run.

        Raises:
            ConfigError: When the run has no checkpoint, or its files lack the choice.
        """
        iteration = run.checkpoint_iteration(which)
        if which == "last":
            return cls(which, iteration)
        rows = run.metrics()
        metric = selection_metric(rows)
        values = {row["iteration"]: row[metric] for row in rows if metric in row}
        name = "evaluation" if metric == _HELD_OUT else "train"
        panel = (run.read_json("panels.json") or {}).get(name)
        if iteration not in values or panel is None:
            raise ConfigError(
                f"metrics.jsonl and panels.json of {run.path} do not say how iteration {iteration}"
                f" became the best: name {run.address}@last"
            )
        return cls(which, iteration, metric, values[iteration], len(values), panel)

    def overlap(self, panel: Panel) -> list[str]:
        """The tasks of a panel that chose the checkpoint; no task if there was one candidate."""
        there, here = self.panel, (panel.environment, panel.split)
        if there is None or self.candidates < 2 or (there["environment"], there["split"]) != here:
            return []
        chose = frozenset(there["task_ids"])
        return [task for task in panel.task_ids if task in chose]

    def others(self, panel: Panel) -> Panel:
        """A panel without the tasks that chose the checkpoint.

        Raises:
            ConfigError: When no task is left.
        """
        chose = frozenset(self.overlap(panel))
        left = tuple(task for task in panel.task_ids if task not in chose)
        if not left:
            raise ConfigError(
                f"all {len(chose)} tasks of {panel.split} chose the {self.which} checkpoint, whose"
                " success on them is likely too high: name another --split, or report RUN@last"
            )
        return type(panel)(panel.environment, panel.split, left)

    def words(self) -> str:
        """The choice in words."""
        what = f"{self.which}, iteration {self.iteration}"
        if self.panel is None:
            return f"{what}: no metric chose it"
        value = f"{self.metric} ({self.value:.1%})"
        tasks = f"panel {self.panel['hash']} ({self.panel['split']}, {self.panel['tasks']} tasks)"
        if self.candidates < 2:
            return f"{what}: the only iteration with {value}, on {tasks}"
        return f"{what}: the highest {value} of {self.candidates} iterations, on {tasks}"

    def words_for(self, panel: Panel) -> str:
        """The choice in words, with the number of tasks of a panel that made it."""
        if self.candidates < 2:
            return self.words()
        shared, count = len(self.overlap(panel)), len(panel.task_ids)
        caution = "; success on them is likely too high" if shared else ""
        return f"{self.words()}; {shared} of the {count} tasks of this report chose it{caution}"

    def record(self, panel: Panel) -> dict[str, Any]:
        """The choice as plain data, for a report of a panel."""
        chosen: dict[str, Any] = {"which": self.which, "iteration": self.iteration}
        if self.panel is None:
            return chosen
        return {
            **chosen,
            "metric": self.metric,
            "value": self.value,
            "candidates": self.candidates,
            "panel": {k: self.panel[k] for k in ("hash", "environment", "split", "tasks")},
            "tasks_in_this_report": len(self.overlap(panel)),
        }


def selection_metric(rows: Rows) -> str:
    """The metric that chooses the best checkpoint: held-out success; training's before that."""
    return _HELD_OUT if any(_HELD_OUT in row for row in rows) else _TRAINING


def is_best(rows: Rows) -> bool:
    """Whether the last row is the best so far; the newest of equal rows is the best."""
    metric = selection_metric(rows)
    values = [row[metric] for row in rows if metric in row]
    return metric in rows[-1] and bool(rows[-1][metric] >= max(values))
