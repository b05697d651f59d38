"""The console of a running sweep: a line for each iteration of a trial.

Tune's own reporter prints a table of all trials every few seconds, thousands of lines in an hour.
It is off (``verbose=0``).
"""

from __future__ import annotations

import logging
import math
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import ray
from ray import tune
from ray.air.constants import TRAINING_ITERATION
from ray.tune.experiment import Trial as TuneTrial

from trca.cli.run.training import stopping, stopping_politely
from trca.cli.sweep.table import reached
from trca.cli.sweep.trial import ERROR, ITERATIONS, NODE
from trca.runs.names import STOPPED
from trca.runs.storage import read_json_from, write_json_to

if TYPE_CHECKING:
    from rich.console import Console

_terminal: list[Console] = []
"""The console of the running sweep. Tune pickles its callbacks, which look up the console here."""


class Progress(tune.Callback):
    """Prints a line for each iteration, stop, restart and failure of a trial."""

    def __init__(self) -> None:
        self._announced = False

    def on_trial_result(
        self,
        iteration: int,
        trials: list[TuneTrial],
        trial: TuneTrial,
        result: dict[str, Any],
        **info: Any,
    ) -> None:
        """Prints an iteration."""
        if ERROR in result:
            assert trial.storage is not None
            log = f"{trial.storage.trial_fs_path}/logs/output.log"
            _print(f"failed: {result[ERROR]}. Log: {log}", trial, "red")
            return
        parts = [f"iteration {result[TRAINING_ITERATION]}/{result[ITERATIONS]}"]
        if not math.isnan(success := result.get("success_rate", math.nan)):
            parts.append(f"success {success:.1%}")
        if (held_out := result.get("evaluation/success_rate")) is not None:
            parts.append(f"held out {held_out:.1%}")
        if len(ray.nodes()) > 1:
            parts.append(f"node {result[NODE][:6]}")
        _print("  ".join(parts), trial)

    def on_trial_complete(
        self, iteration: int, trials: list[TuneTrial], trial: TuneTrial, **info: Any
    ) -> None:
        """Prints that a trial was stopped early."""
        if stopped := read_json_from(trial.storage, STOPPED):
            _print(f"stopped early: {reached(stopped)}", trial)

    def on_trial_recover(
        self, iteration: int, trials: list[TuneTrial], trial: TuneTrial, **info: Any
    ) -> None:
        """Prints that a trial starts again."""
        _print("lost its node or process; continues from its last checkpoint", trial)

    def on_trial_error(
        self, iteration: int, trials: list[TuneTrial], trial: TuneTrial, **info: Any
    ) -> None:
        """Prints and records that the process of a trial was lost too often."""
        lines = str(trial.get_error() or "the process ended").strip().splitlines()
        status = {
            "state": "failed",
            "iteration": (trial.last_result or {}).get(TRAINING_ITERATION, 0),
            "pid": os.getpid(),
            "message": lines[-1],
        }
        with suppress(OSError):
            write_json_to(trial.storage, "status.json", status)
        _print(f"failed: {lines[-1]}", trial, "red")

    def on_step_end(self, iteration: int, trials: list[TuneTrial], **info: Any) -> None:
        """Ends the experiment once no trial runs after the sweep is asked to stop."""
        if stopping().is_set() and not self._announced:
            self._announced = True
            _print("stopping after the running iterations; Ctrl-C again stops at once")
        if stopping().is_set() and not any(t.status == TuneTrial.RUNNING for t in trials):
            os.kill(os.getpid(), signal.SIGUSR1)  # Tune's signal for its graceful end


def _print(text: str, trial: TuneTrial | None = None, style: str | None = None) -> None:
    label = f"{trial.config['trial']['label']}  " if trial else ""
    if _terminal:
        _terminal[-1].print(f"{label}{text}", markup=False, style=style)


class _Waiting(logging.Handler):
    """Prints Tune's warning that no node has the resources of a trial.

    The console shows nothing else of Tune's log, and such a sweep waits without an end.
    """

    logger = logging.getLogger("ray.tune.execution.insufficient_resources_manager")

    def emit(self, record: logging.LogRecord) -> None:
        _print(f"waiting: {record.getMessage()}", style="yellow")


@contextmanager
def shown_on(console: Console) -> Iterator[None]:
    """Prints the lines of the sweep, and handles Ctrl-C as `stopping_politely`.

    `Progress` tells that the sweep stops: the signal may come during a print.
    """
    waiting = _Waiting()
    _terminal.append(console)
    waiting.logger.addHandler(waiting)
    waiting.logger.setLevel(logging.WARNING)  # `init_ray` raises the level of Ray's loggers
    try:
        with stopping_politely():
            yield
    finally:
        waiting.logger.removeHandler(waiting)
        _terminal.pop()
