"""The console of a running sweep: a line for each iteration of a trial, and Ctrl-C.

Tune's own reporter prints a table of all trials every few seconds, thousands of lines in an hour.
It is off (``verbose=0``).
"""

from __future__ import annotations

import logging
import math
import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING, Any

import ray
from ray import tune
from ray.air.constants import TRAINING_ITERATION
from ray.tune.experiment import Trial as TuneTrial

from trca.cli.sweep.table import stop_words
from trca.cli.sweep.trial import ERROR, ITERATIONS, NODE, RECORDED
from trca.cli.sweep.trials import joined, point_words
from trca.cli.sweep.tuning import read_from_trial, stopping, write_to_trial
from trca.runs.names import STOPPED

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
            self._print(trial, f"failed: {result[ERROR]}. Log: {_log(trial)}", "red")
            return
        if result[RECORDED]:
            return
        parts = [
            f"iteration {result[TRAINING_ITERATION]}/{result[ITERATIONS]}",
        ]
        if not math.isnan(success := result.get("success_rate", math.nan)):
            parts.append(f"success {success:.1%}")
        if (held_out := result.get("evaluation/success_rate")) is not None:
            parts.append(f"held out {held_out:.1%}")
        if len(ray.nodes()) > 1:
            parts.append(f"node {result[NODE][:6]}")
        self._print(trial, "  ".join(parts))

    def on_trial_complete(
        self, iteration: int, trials: list[TuneTrial], trial: TuneTrial, **info: Any
    ) -> None:
        """Prints that a trial was stopped early."""
        if stopped := read_from_trial(trial, STOPPED):
            self._print(trial, stop_words(stopped))

    def on_trial_recover(
        self, iteration: int, trials: list[TuneTrial], trial: TuneTrial, **info: Any
    ) -> None:
        """Prints that a trial starts again."""
        self._print(trial, "lost its node or process; continues from its last checkpoint")

    def on_trial_error(
        self, iteration: int, trials: list[TuneTrial], trial: TuneTrial, **info: Any
    ) -> None:
        """Prints and records that the process of a trial was lost more often than `_RETRIES`."""
        lines = str(trial.get_error() or "the process ended").strip().splitlines()
        with suppress(OSError):
            status = {
                "state": "failed",
                "iteration": (trial.last_result or {}).get(TRAINING_ITERATION, 0),
                "pid": os.getpid(),
                "message": lines[-1],
            }
            write_to_trial(trial, "status.json", status)
        self._print(trial, f"failed: {lines[-1]}", "red")

    def on_step_end(self, iteration: int, trials: list[TuneTrial], **info: Any) -> None:
        """Ends the experiment once no trial runs after the sweep is asked to stop."""
        if stopping().is_set() and not self._announced:
            self._announced = True
            _print("stopping after the running iterations; Ctrl-C again stops at once")
        if stopping().is_set() and not any(t.status == TuneTrial.RUNNING for t in trials):
            os.kill(os.getpid(), signal.SIGUSR1)  # Tune's signal for its graceful end

    def _print(self, trial: TuneTrial, text: str, style: str | None = None) -> None:
        _print(f"{label(trial.config)}  {text}", style)


def _print(text: str, style: str | None = None) -> None:
    if _terminal:
        _terminal[-1].print(text, markup=False, style=style)


class _Waiting(logging.Handler):
    """Prints Tune's warning that no node has the resources of a trial.

    The console shows nothing else of Tune's log, and such a sweep waits without an end.
    """

    logger = logging.getLogger("ray.tune.execution.insufficient_resources_manager")

    def emit(self, record: logging.LogRecord) -> None:
        _print(f"waiting: {record.getMessage()}", "yellow")


def label(config: Mapping[str, Any]) -> str:
    """The point, the panel and the seed of a trial in words."""
    point, pair = config["trial"]["point"], config["trial"]["pair"]
    [words] = point_words([point["settings"]])
    [panel] = point_words([pair["panel"]])
    parts = (joined(words), joined(panel), f"seed={pair['seed']}")
    return "  ".join(filter(None, parts))


def _log(trial: TuneTrial) -> str:
    assert trial.storage is not None
    return f"{trial.storage.trial_fs_path}/logs/output.log"


@contextmanager
def stopping_politely(console: Console) -> Iterator[None]:
    """Ends each trial after its iteration on the first Ctrl-C; stops at once on the second.

    Args:
        console: Prints the lines of the sweep. The signal may come during a print; `Progress`
            prints the answer later.
    """

    def ask(number: int, frame: FrameType | None) -> None:
        if stopping().is_set():
            raise KeyboardInterrupt
        stopping().set()

    waiting = _Waiting()
    stopping().clear()
    before = signal.signal(signal.SIGINT, ask)
    _terminal.append(console)
    waiting.logger.addHandler(waiting)
    waiting.logger.setLevel(logging.WARNING)  # `init_ray` raises the level of Ray's loggers
    try:
        yield
    finally:
        waiting.logger.removeHandler(waiting)
        _terminal.pop()
        signal.signal(signal.SIGINT, before)
