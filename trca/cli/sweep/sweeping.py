"""Runs a sweep by `tune.Tuner`: YAML becomes ``param_space``, `TuneConfig` and `RunConfig`.

Ray Tune places the trials on all nodes of a cluster, at most ``side_by_side`` at a time. Tune
starts a trial again if its node is lost, and stores trials in a folder or at a URI. Tune's own
reporter is off (``verbose=0``): its table of all trials every few seconds would be thousands of
lines in an hour. `Progress` prints a line for each iteration of a trial.

A new `Tuner` on the same trial directories resumes a sweep, and starts the trials that have not
ended. `Tuner.restore` of Ray 2.60 does not fit (paths below ``ray/tune``):

- Its state is up to 10 s old or older, and the copy to the storage is not atomic. A trial that
  started later gets another directory if the cluster still has Tune's staging folder
  (``experiment/trial.py``: ``_create_unique_logdir_name``).
- The state has no scheduler (``execution/tune_controller.py``: ``__getstate__`` deletes
  ``_scheduler_alg``), and a searcher from another moment than the trials.
- Tune counts a trial that returned ``done`` as ended, whether it failed or was interrupted.
"""

from __future__ import annotations

import logging
import math
import os
import signal
from collections.abc import Iterator, Set
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import ray
from pyarrow.fs import FileSystem, LocalFileSystem, SubTreeFileSystem
from ray import tune
from ray.air.constants import TRAINING_ITERATION
from ray.tune.experiment import Trial as TuneTrial

from trca.algorithms.settings.sweeps import SweepSettings
from trca.cli.run.training import MOST_LOSSES, running_ray, stopping, stopping_politely
from trca.cli.sweep.table import reached
from trca.cli.sweep.trial import ERROR, ITERATIONS, METRIC, NODE, SweepTrial
from trca.cli.sweep.trials import OVER, planned, read_trials
from trca.cli.sweep.tuning import PanelASHA, PointSearch, SweepScheduler
from trca.runs import STOPPED, TRIALS
from trca.runs.folder import RunFolder
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


def claim_directory(trial: TuneTrial) -> str:
    """Assigns the directory of its name to a trial, and returns the name.

    Tune appends a suffix if the staging folder of the experiment has the name. Two drivers that
    start in the same second on one cluster share this folder.
    """
    name: str = trial.config["trial"]["name"]
    trial.relative_logdir = name  # type: ignore[assignment]  # Ray declares no type
    if trial.storage:
        trial.storage.trial_dir_name = name
    return name


def param_space(sweep: SweepSettings, name: str, ended: Set[int] = frozenset()) -> dict[str, Any]:
    """The configs of the trials that have not ended; a search adds points and repeats."""
    constants = {"sweep": sweep.model_dump(), "name": name}
    if sweep.search:
        return constants
    every = enumerate(planned(sweep, sweep.every_point()), start=1)
    trials = [trial for number, trial in every if number not in ended]
    return {"trial": tune.grid_search(trials), **constants}


def make_tuner(sweep: SweepSettings, folder: RunFolder) -> tune.Tuner:
    """The tuner of a sweep that is new or resumed."""
    trials = read_trials(sweep, folder)
    search, scheduler = None, SweepScheduler()  # type: ignore[no-untyped-call]
    if sweep.search:
        search = PointSearch(sweep, trials)
    if sweep.scheduler:
        first = sweep.trial(sweep.every_point()[0], sweep.seeds[0])  # all have one length
        scheduler = PanelASHA(sweep, first.iterations, trials)
    files, path = _place(folder)
    ended = {trial.number for trial in trials if trial.state in OVER}
    return tune.Tuner(
        SweepTrial,
        param_space=param_space(sweep, folder.name, ended),
        tune_config=tune.TuneConfig(
            metric=METRIC,
            mode="max",
            search_alg=search,
            scheduler=scheduler,
            num_samples=sweep.samples * sweep.repeats if sweep.search else 1,
            max_concurrent_trials=sweep.side_by_side,
            trial_dirname_creator=claim_directory,
            trial_name_creator=claim_directory,
        ),
        run_config=tune.RunConfig(
            name=TRIALS,
            storage_path=path,
            storage_filesystem=files,
            callbacks=[Progress()],
            failure_config=tune.FailureConfig(max_failures=MOST_LOSSES),
            checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),  # the recorder's
            verbose=0,
        ),
    )


def _place(folder: RunFolder) -> tuple[FileSystem | None, str]:
    """File system and path for Tune; without a file system the path is a folder.

    Tune sees no difference between a folder and a ``file://`` URI, and the trials would write in
    place. A URI holds copies of runs (`trca.runs.storage`), so that its file system is wrapped.
    """
    if folder.storage is None:
        return None, str(folder.path.resolve())
    files, path = FileSystem.from_uri(folder.address)
    if isinstance(files, LocalFileSystem):
        return SubTreeFileSystem("/", files), path.lstrip("/")
    return files, path


def cpus_of_ray(sweep: SweepSettings) -> float:
    """The CPUs that Ray gets on one machine, so that the trials run side by side.

    The count may exceed the cores. Every trial gets the CPUs of the largest, and one for its
    driver.
    """
    trials = (sweep.trial(point, sweep.seeds[0]) for point in sweep.every_point())
    most = max(trial.resources()[0] for trial in trials)
    return (sweep.side_by_side or 1) * (1 + most)


def run_sweep(sweep: SweepSettings, folder: RunFolder, console: Console) -> bool:
    """Runs the trials of a sweep that have not ended; returns whether Ctrl-C stopped the sweep."""
    os.environ["TUNE_DISABLE_SIGINT_HANDLER"] = "1"  # `stopping_politely` handles the signal
    with running_ray(cpus_of_ray(sweep), console.print):
        if not stopping().is_set():
            make_tuner(sweep, folder).fit()
    return stopping().is_set()
