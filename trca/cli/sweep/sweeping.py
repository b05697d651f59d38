"""Runs a sweep by `tune.Tuner`: YAML becomes ``param_space``, `TuneConfig` and `RunConfig`.

Ray Tune places the trials on all nodes of a cluster, at most ``side_by_side`` at a time. Tune
starts a trial again if its node is lost, and stores trials in a folder or at a URI. This module
does not print; `trca.cli.sweep.progress` does, and handles Ctrl-C.

`Tuner.restore` resumes a sweep of a grid. The other sweeps are resumed by a new `Tuner` on the same
trial directories: each trial reports its recorded iterations and then trains. What `Tuner.restore`
of Ray 2.60 lacks (paths below ``ray/tune``):

- Rungs of ASHA. The stored state has no scheduler (``execution/tune_controller.py``:
  ``__getstate__`` deletes ``_scheduler_alg``), and a restored `ASHAScheduler` is empty.
- A search that agrees with its trials. Both are stored every 10 s or less often, in two files, one
  after the other (``save_to_dir``). After ``kill -9`` between both writes the searcher waits for
  trials that do not exist.
- Failed and interrupted trials, and trials whose directory is missing. Tune counts a trial that
  returned ``done`` as ended.
- A state file that is cut off. The copy to the storage is not atomic.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import ray
from pyarrow.fs import FileSystem, LocalFileSystem, SubTreeFileSystem
from ray import tune
from ray.tune.experiment import Trial as TuneTrial

from trca.cli.sweep.progress import Progress
from trca.cli.sweep.trial import METRIC, SweepTrial
from trca.cli.sweep.trials import OVER, by_point, read_trials, trial_names
from trca.cli.sweep.tuning import (
    PanelASHA,
    PointSearch,
    SweepScheduler,
    stopping,
)
from trca.runs.folder import RunFolder
from trca.runs.names import TRIALS
from trca.tune_configs.sweeps import SweepSettings

if TYPE_CHECKING:
    from rich.console import Console

logger = logging.getLogger(__name__)

_RETRIES: Final = 3
"""Times that a trial is started again after its process or node is lost."""


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
        search_alg=_search(sweep, folder) if sweep.search else None,
        scheduler=_scheduler(sweep),
        num_samples=sweep.samples * sweep.repeats if sweep.search else 1,
        max_concurrent_trials=sweep.side_by_side,
        trial_dirname_creator=directory_name,
        trial_name_creator=directory_name,
    )
    files, path = _place(folder)
    run_config = tune.RunConfig(
        name=TRIALS,
        storage_path=path,
        storage_filesystem=files,
        callbacks=[Progress()],
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


def _search(sweep: SweepSettings, folder: RunFolder) -> PointSearch:
    trials = by_point(read_trials(sweep, folder), sweep.repeats)
    return PointSearch(sweep, {number: each[0].point for number, each in trials.items()})


def _scheduler(sweep: SweepSettings) -> SweepScheduler:
    if sweep.scheduler is None:
        return SweepScheduler()  # type: ignore[no-untyped-call]
    first = sweep.trial(sweep.every_point()[0], sweep.seeds[0])  # all have one length
    return PanelASHA(sweep, first.parameters.iterations)


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


def _restored(sweep: SweepSettings, folder: RunFolder) -> tune.Tuner | None:
    """The tuner of an experiment that Tune can restore (see the module); else `None`."""
    files, path = _place(folder)
    path = f"{path}/{TRIALS}"
    if sweep.search or sweep.scheduler or not tune.Tuner.can_restore(path, files):
        return None
    try:
        tuner = tune.Tuner.restore(path, SweepTrial, resume_errored=True, storage_filesystem=files)
        results = tuner.get_results()
    except Exception as error:
        logger.warning("the experiment's state cannot be read: %s", error)
        return None
    over = {trial.run.name for trial in read_trials(sweep, folder) if trial.state in OVER}
    ended = [results[k] for k in range(len(results)) if (results[k].metrics or {}).get("done")]
    return tuner if {Path(result.path).name for result in ended} <= over else None


def cpus_of_ray(sweep: SweepSettings) -> float:
    """The CPUs that Ray gets on one machine, so that the trials run side by side.

    The count may exceed the cores. Every trial gets the CPUs of the largest, and one for its
    driver.
    """
    trials = (sweep.trial(point, sweep.seeds[0]) for point in sweep.every_point())
    most = max(trial.run.resources()[0] for trial in trials)
    return (sweep.side_by_side or 1) * (1 + most)


def run_sweep(sweep: SweepSettings, folder: RunFolder, console: Console) -> bool:
    """Runs the trials of a sweep that have not ended.

    Args:
        sweep: The sweep.
        folder: The folder of the sweep.
        console: Prints the progress.

    Returns:
        Whether Ctrl-C stopped the sweep.
    """
    from trca.cli.run.training import init_ray

    os.environ["TUNE_DISABLE_SIGINT_HANDLER"] = "1"  # `stopping_politely` handles the signal
    started = not ray.is_initialized()
    if started:
        init_ray(cpus_of_ray(sweep), console.print)
    try:
        if not stopping().is_set():
            make_tuner(sweep, folder).fit()
    finally:
        if started:
            ray.shutdown()
    return stopping().is_set()
