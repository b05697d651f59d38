"""Runs a sweep by `tune.Tuner`: YAML becomes ``param_space``, `TuneConfig` and `RunConfig`.

Ray Tune places the trials on all nodes of a cluster, at most ``side_by_side`` at a time. Tune
starts a trial again if its node is lost, and stores trials in a folder or at a URI. This module
does not print; `trca.cli.sweep.progress` does.

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

import os
from collections.abc import Set
from typing import TYPE_CHECKING, Any

from pyarrow.fs import FileSystem, LocalFileSystem, SubTreeFileSystem
from ray import tune
from ray.tune.experiment import Trial as TuneTrial

from trca.algorithms.settings.sweeps import SweepSettings
from trca.cli.run.training import MOST_LOSSES, running_ray, stopping
from trca.cli.sweep.progress import Progress
from trca.cli.sweep.trial import METRIC, SweepTrial
from trca.cli.sweep.trials import OVER, planned, read_trials
from trca.cli.sweep.tuning import PanelASHA, PointSearch, SweepScheduler
from trca.runs.folder import RunFolder
from trca.runs.names import TRIALS

if TYPE_CHECKING:
    from rich.console import Console


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
    """The configs of the trials; a search adds points and repeats itself.

    Args:
        sweep: The sweep.
        name: The name of the sweep's folder.
        ended: The numbers of the trials that have ended. Tune does not start them.
    """
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
    """Runs the trials of a sweep that have not ended.

    Args:
        sweep: The sweep.
        folder: The folder of the sweep.
        console: Prints the progress.

    Returns:
        Whether Ctrl-C stopped the sweep.
    """
    os.environ["TUNE_DISABLE_SIGINT_HANDLER"] = "1"  # `stopping_politely` handles the signal
    with running_ray(cpus_of_ray(sweep), console.print):
        if not stopping().is_set():
            make_tuner(sweep, folder).fit()
    return stopping().is_set()
