"""Runs a sweep by `tune.Tuner`: YAML becomes ``param_space``, `TuneConfig` and `RunConfig`.

Ray Tune starts the trials on all nodes of a cluster, at most ``side_by_side`` at a time and as the
resources allow. Tune starts a trial again when its node is lost, and stores trials in a folder or
at a URI.

A sweep of a grid is resumed by `Tuner.restore`. Three cases need a new `Tuner` on the same trial
directories; the trials report their recorded iterations and then train:

- A scheduler or a search. `TuneController.__getstate__` leaves out ``_scheduler_alg``, so that a
  restored `ASHAScheduler` has lost its rungs. Trials and searcher are stored in two files, one
  after the other; after ``kill -9`` in between, the searcher waits for trials that do not exist.
- A trial that failed, that was interrupted or whose directory is missing. Tune counts such a trial
  as ended.
- A file of the experiment's state that is cut off. Tune copies the file every 10 s or less often,
  and the copy is not atomic.

`Shown` prints the console's lines; `trca.cli.sweep.tuning` stops the trials on Ctrl-C.
"""

from __future__ import annotations

import logging
import math
import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

from ray import tune
from ray.tune.experiment import Trial as TuneTrial

from trca.cli.sweep.table import stop_words
from trca.cli.sweep.trial import ERROR, ITERATIONS, METRIC, RECORDED, SweepTrial
from trca.cli.sweep.trials import OVER, joined, point_words, read_trials, trial_names
from trca.cli.sweep.tuning import (
    PanelASHA,
    PointSearch,
    SweepScheduler,
    read_from_trial,
    stopping,
    write_to_trial,
)
from trca.runs.folder import RunFolder
from trca.runs.names import STOPPED, TRIALS
from trca.tune_configs.sweeps import SweepSettings

if TYPE_CHECKING:
    from rich.console import Console

logger = logging.getLogger(__name__)

_RETRIES: Final = 3
"""Times that a trial is started again after its process or node is lost."""
_terminal: list[Console] = []
"""The console of the sweep under way. Tune pickles callbacks, which find the console here."""


class Shown(tune.Callback):
    """Prints a line for each iteration, stop and failure of a trial."""

    def __init__(self) -> None:
        self._told = False

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
        held_out = result.get("evaluation/success_rate")
        shown = "" if held_out is None else f"  held out {held_out:.1%}"
        self._print(
            trial,
            f"iteration {result['training_iteration']}/{result[ITERATIONS]}  "
            f"success {result.get('success_rate', math.nan):.1%}{shown}",
        )

    def on_trial_complete(
        self, iteration: int, trials: list[TuneTrial], trial: TuneTrial, **info: Any
    ) -> None:
        """Prints that a trial was stopped early."""
        if stopped := read_from_trial(trial, STOPPED):
            self._print(trial, stop_words(stopped))

    def on_trial_error(
        self, iteration: int, trials: list[TuneTrial], trial: TuneTrial, **info: Any
    ) -> None:
        """Prints and records the failure of a trial whose process is lost again and again."""
        lines = str(trial.get_error() or "the process ended").strip().splitlines()
        with suppress(OSError):
            status = {"state": "failed", "iteration": 0, "pid": os.getpid(), "message": lines[-1]}
            write_to_trial(trial, "status.json", status)
        self._print(trial, f"failed: {lines[-1]}", "red")

    def on_step_end(self, iteration: int, trials: list[TuneTrial], **info: Any) -> None:
        """Ends the experiment once no trial runs after the sweep is asked to stop."""
        if stopping().is_set() and not self._told:
            self._told = True
            _print("stopping after the running iterations; Ctrl-C again stops at once")
        if stopping().is_set() and not any(t.status == TuneTrial.RUNNING for t in trials):
            os.kill(os.getpid(), signal.SIGUSR1)  # Tune's signal for its graceful end

    def _print(self, trial: TuneTrial, text: str, style: str | None = None) -> None:
        _print(f"{label(trial.config)}  {text}", style)


def _print(text: str, style: str | None = None) -> None:
    if _terminal:
        _terminal[-1].print(text, markup=False, style=style)


def label(config: Mapping[str, Any]) -> str:
    """The point, the panel and the seed of a trial in words."""
    [words] = point_words([config["point"]["settings"]])
    [panel] = point_words([config["pair"]["panel"]])
    parts = (joined(words), joined(panel), f"seed={config['pair']['seed']}")
    return "  ".join(filter(None, parts))


def directory_name(trial: TuneTrial) -> str:
    """The name of a trial's directory, such as ``001_lambda-0.2_seed-0``."""
    config = trial.config
    sweep, point = SweepSettings(**config["sweep"]), config["point"]
    points = [point["settings"]] if sweep.search else sweep.every_point()
    names = trial_names(sweep, points, point["number"] if sweep.search else 0)
    pair = sweep.each_pair().index(config["pair"])
    return names[point["number"] * sweep.repeats + pair + 1]


def param_space(sweep: SweepSettings, name: str) -> dict[str, Any]:
    """The configs of all trials; a search adds points and repeats itself.

    Tune sorts the keys and changes the first one first: all trials of a point follow each other.
    """
    constants = {"sweep": sweep.model_dump(), "name": name}
    if sweep.search:
        return constants
    points = [{"number": k, "settings": point} for k, point in enumerate(sweep.every_point())]
    return {
        "pair": tune.grid_search(sweep.each_pair()),
        "point": tune.grid_search(points),
        **constants,
    }


def make_tuner(sweep: SweepSettings, folder: RunFolder) -> tune.Tuner:
    """The tuner of a sweep that is new or resumed."""
    if restored := _restored(sweep, folder):
        return restored
    tune_config = tune.TuneConfig(
        metric=METRIC,
        mode="max",
        search_alg=PointSearch(sweep) if sweep.search else None,
        scheduler=_scheduler(sweep),
        num_samples=sweep.samples * sweep.repeats if sweep.search else 1,
        max_concurrent_trials=sweep.side_by_side,
        trial_dirname_creator=directory_name,
        trial_name_creator=directory_name,
    )
    run_config = tune.RunConfig(
        name=TRIALS,
        storage_path=_place(folder),
        callbacks=[Shown()],
        failure_config=tune.FailureConfig(max_failures=_RETRIES),
        checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),  # the recorder has them
        verbose=0,
    )
    return tune.Tuner(
        SweepTrial,
        param_space=param_space(sweep, folder.name),
        tune_config=tune_config,
        run_config=run_config,
    )


def _scheduler(sweep: SweepSettings) -> SweepScheduler:
    if sweep.scheduler is None:
        return SweepScheduler()  # type: ignore[no-untyped-call]
    first = sweep.trial(sweep.every_point()[0], sweep.seeds[0])  # all have one length
    return PanelASHA(sweep, first.parameters.iterations)


def _place(folder: RunFolder) -> str:
    return folder.address if folder.storage else str(folder.path.resolve())


def _restored(sweep: SweepSettings, folder: RunFolder) -> tune.Tuner | None:
    """The tuner of an experiment that Tune can restore (see the module); else `None`."""
    path = f"{_place(folder)}/{TRIALS}"
    if sweep.search or sweep.scheduler or not tune.Tuner.can_restore(path):
        return None
    try:
        tuner = tune.Tuner.restore(path, SweepTrial, resume_errored=True)
        results = tuner.get_results()
    except Exception as error:
        logger.warning("the experiment's state cannot be read: %s", error)
        return None
    over = {trial.run.name for trial in read_trials(sweep, folder) if trial.state in OVER}
    ended = [results[k] for k in range(len(results)) if (results[k].metrics or {}).get("done")]
    return tuner if {Path(result.path).name for result in ended} <= over else None


def _log(trial: TuneTrial) -> str:
    assert trial.storage is not None
    return f"{trial.storage.trial_fs_path}/logs/output.log"


@contextmanager
def stopping_politely(console: Console) -> Iterator[None]:
    """Ends each trial after its iteration on the first Ctrl-C; stops at once on the second.

    Args:
        console: Where the sweep prints. The signal may come while the sweep prints, so that
            `Shown` prints the answer.
    """

    def ask(number: int, frame: FrameType | None) -> None:
        if stopping().is_set():
            raise KeyboardInterrupt
        stopping().set()

    stopping().clear()
    usual = signal.signal(signal.SIGINT, ask)
    _terminal.append(console)
    try:
        yield
    finally:
        _terminal.pop()
        signal.signal(signal.SIGINT, usual)


def most_cpus(sweep: SweepSettings) -> float:
    """The most CPUs that a trial asks Ray for."""
    trials = (sweep.trial(point, sweep.seeds[0]) for point in sweep.every_point())
    return max(trial.run.resources()[0] for trial in trials)


def run_sweep(sweep: SweepSettings, folder: RunFolder, console: Console) -> bool:
    """Runs what is left of a sweep.

    Args:
        sweep: The sweep.
        folder: Its folder.
        console: Where to print.

    Returns:
        Whether Ctrl-C stopped it.
    """
    import ray

    from trca.cli.run.training import init_ray

    os.environ["TUNE_DISABLE_SIGINT_HANDLER"] = "1"  # `stopping_politely` handles the signal
    started = not ray.is_initialized()
    if started:
        init_ray((sweep.side_by_side or 0) * (1 + most_cpus(sweep)), console.print)
    try:
        if not stopping().is_set():
            make_tuner(sweep, folder).fit()
    finally:
        if started:
            ray.shutdown()
    return stopping().is_set()
