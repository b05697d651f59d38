"""Ray Tune's searcher and scheduler, with repeats of each point over panels and seeds.

Two parts of Tune do not fit a sweep with repeats:

- `tune.search.Repeater` hands a mean to the searcher when the last repeat ends. Which results a
  point is chosen from then depends on the speed of the trials, and a stopped trial counts like an
  ended one (`repeater.py`: ``np.nanmean(scores)``). `PointSearch` hands over results in the order
  of the points: equal seeds and results give equal points.
- `ASHAScheduler` compares all trials of an experiment. `PanelASHA` has one for each panel and seed,
  since another panel may be harder.

Both keep nothing on disk: a trial that continues reports its recorded iterations again
(`trca.cli.sweep.trial`).
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass
from threading import Event
from typing import TYPE_CHECKING, Any, Final

from pyarrow.fs import FileSystem, FileType
from ray import tune
from ray.air.constants import TRAINING_ITERATION
from ray.tune.schedulers import ASHAScheduler, FIFOScheduler, TrialScheduler
from ray.tune.search import Searcher
from ray.tune.search.optuna import OptunaSearch
from ray.tune.search.sample import Categorical

from trca.cli.sweep.trial import METRIC, RECORDED, TRAJECTORIES, failed, whole
from trca.runs.names import STOPPED
from trca.tune_configs.files import ConfigError
from trca.tune_configs.sweeps import SweepSettings, plain

if TYPE_CHECKING:
    from ray.tune.experiment import Trial

logger = logging.getLogger(__name__)

_STOPPING: Final = Event()


def stopping() -> Event:
    """Whether the sweep is asked to stop. Tune pickles schedulers, which find the event here."""
    return _STOPPING


@dataclass(frozen=True)
class Result:
    """The outcome of a point.

    Attributes:
        value: Mean of the metric over the point's trials; `None` when one of them failed.
        iteration: First iteration at which a trial was stopped early; `None` when all ended.
    """

    value: float | None
    iteration: int | None = None

    @classmethod
    def of(cls, results: list[Mapping[str, Any]]) -> Result:
        """The outcome of the last results of a point's trials."""
        values = [float(result.get(METRIC, math.nan)) for result in results]
        if any(map(failed, results)) or any(map(math.isnan, values)):
            return cls(None)
        stopped = [int(each[TRAINING_ITERATION]) for each in results if not whole(each)]
        return cls(sum(values) / len(values), min(stopped, default=None))


class PointSearch(Searcher):
    """Optuna's points, each repeated on each panel with each seed.

    A point is chosen from the results of all points before it but the last few, which may run at
    the same time.
    """

    def __init__(self, sweep: SweepSettings) -> None:
        """Makes the search of a sweep that has one."""
        from optuna import logging as optuna_logging
        from optuna.samplers import TPESampler

        super().__init__(metric=METRIC, mode="max")
        assert sweep.search is not None
        assert sweep.side_by_side is not None
        optuna_logging.set_verbosity(logging.WARNING)
        spaces = sweep.spaces()
        self._choices = {k: s.categories for k, s in spaces.items() if isinstance(s, Categorical)}
        # Choices by number: Optuna takes plain values only, and a choice may be a mapping.
        numbers = {k: tune.choice(range(len(values))) for k, values in self._choices.items()}
        sampler = TPESampler(
            n_startup_trials=sweep.search.optuna.startup_points, seed=sweep.sample_seed
        )
        self._search = OptunaSearch(
            OptunaSearch.convert_search_space({**spaces, **numbers}),
            metric=METRIC,
            mode="max",
            sampler=sampler,
        )
        self._sweep = sweep
        self._open = -(-sweep.side_by_side // sweep.repeats)
        self._suggested = 0
        self._told = 0
        self._waiting: list[dict[str, Any]] = []
        self._points: dict[str, int] = {}
        self._results: dict[int, list[Mapping[str, Any]]] = {}
        self._refused: set[int] = set()

    def suggest(self, trial_id: str) -> Any:
        """The config of the next trial; `None` while the search waits for results.

        After the last trial it is `Searcher.FINISHED`.
        """
        while not self._waiting:
            if self._suggested == self._sweep.samples:
                return Searcher.FINISHED
            if not self._tell_results():
                return None
            self._waiting = self._next_trials()
        config = self._waiting.pop(0)
        self._points[trial_id] = config["point"]["number"]
        return config

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        """Takes the last result of a trial."""
        if (point := self._points.pop(trial_id, None)) is not None:
            self._results.setdefault(point, []).append(result or {})

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """Ignores the results of iterations."""

    def save(self, checkpoint_path: str) -> None:
        """Writes nothing: see the module."""

    def restore(self, checkpoint_path: str) -> None:
        """Reads nothing: see the module."""

    def _tell_results(self) -> bool:
        """Gives Optuna the results before the next point; False if a result is missing."""
        while self._told <= self._suggested - self._open:
            results = self._results.get(self._told, [])
            if self._told in self._refused:
                self._tell(str(self._told), Result(None))
            elif len(results) == self._sweep.repeats:
                self._tell(str(self._told), Result.of(results))
            else:
                return False
            self._told += 1
        return True

    def _next_trials(self) -> list[dict[str, Any]]:
        """The configs of the next point's trials; none where no run can have its settings.

        The distributions are checked before the sweep starts; two settings may not go together.
        """
        number = self._suggested
        self._suggested += 1
        found = self._search.suggest(str(number))
        assert isinstance(found, dict)
        point = {key: self._value(key, value) for key, value in found.items()}
        try:
            for panel in self._sweep.panels:
                self._sweep.trial({**panel, **point}, self._sweep.seeds[0])
        except ConfigError as error:
            self._refused.add(number)
            logger.warning("point %d of the search is left out: %s", number + 1, error)
            return []
        about = {"number": number, "settings": point}
        return [{"point": about, "pair": pair} for pair in self._sweep.each_pair()]

    def _value(self, key: str, value: Any) -> Any:
        return self._choices[key][value] if key in self._choices else plain(value)

    def _tell(self, point: str, result: Result) -> None:
        """Gives Optuna a result; a failed point is ignored, a stopped one is below ended ones."""
        if result.value is None:
            self._search.on_trial_complete(point, error=True)
        elif result.iteration is None:
            self._search.on_trial_complete(point, {METRIC: result.value})
        else:
            self._search.on_trial_result(
                point, {METRIC: result.value, TRAINING_ITERATION: result.iteration}
            )
            self._search.on_trial_complete(point)


class SweepScheduler(FIFOScheduler):
    """Starts trials in order. After Ctrl-C each trial ends after its iteration.

    Tune's own way to stop on Ctrl-C waits 5 seconds and then kills (`TuneController`:
    ``_cleanup_trials``), which loses the iteration under way.
    """

    def choose_trial_to_run(self, tune_controller: Any) -> Trial | None:
        """The next trial; none when the sweep is asked to stop."""
        if stopping().is_set():
            return None
        chosen: Trial | None = super().choose_trial_to_run(tune_controller)
        return chosen

    def on_trial_result(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> str:
        """Whether the trial goes on."""
        return str(TrialScheduler.STOP if stopping().is_set() else TrialScheduler.CONTINUE)


class PanelASHA(SweepScheduler):
    """An `ASHAScheduler` for the trials of each panel and seed.

    A decision is written to the trial's directory before it takes effect, and holds when the sweep
    is resumed.
    """

    def __init__(self, sweep: SweepSettings, iterations: int) -> None:
        """Makes the schedulers of a sweep whose trials have so many iterations."""
        super().__init__()  # type: ignore[no-untyped-call]
        assert sweep.scheduler is not None
        asha = sweep.scheduler.asha
        self._name = sweep.metric
        self._arguments: dict[str, Any] = {
            "time_attr": TRAINING_ITERATION,
            "metric": METRIC,
            "mode": "max",
            "max_t": iterations,
            "grace_period": asha.grace_period,
            "reduction_factor": asha.reduction_factor,
        }
        self._schedulers: dict[str, ASHAScheduler] = {}

    def on_trial_add(self, tune_controller: Any, trial: Trial) -> None:
        """Adds a trial to those it is compared with."""
        self._among(trial).on_trial_add(tune_controller, trial)

    def on_trial_result(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> str:
        """Whether the trial goes on: not if it is behind the others at this iteration."""
        decision = super().on_trial_result(tune_controller, trial, result)
        if math.isnan(result[METRIC]):
            return decision
        judged = self._among(trial).on_trial_result(tune_controller, trial, result)
        if judged != TrialScheduler.STOP or result[RECORDED]:
            return decision
        write_to_trial(
            trial,
            STOPPED,
            {
                "iteration": int(result[TRAINING_ITERATION]),
                "trajectories": result.get(TRAJECTORIES),
                "metric": self._name,
                "value": result[METRIC],
            },
        )
        return str(judged)

    def _among(self, trial: Trial) -> ASHAScheduler:
        key = json.dumps(trial.config["pair"], sort_keys=True)
        if key not in self._schedulers:
            self._schedulers[key] = ASHAScheduler(**self._arguments)
        return self._schedulers[key]


def write_to_trial(trial: Trial, name: str, value: Mapping[str, Any]) -> None:
    """Writes a JSON file into the directory of a trial, wherever that is stored."""
    files, folder = _place(trial)
    files.create_dir(folder, recursive=True)
    with files.open_output_stream(f"{folder}/{name}") as stream:
        stream.write((json.dumps(value, indent=2) + "\n").encode())


def read_from_trial(trial: Trial, name: str) -> Any:
    """A JSON file of a trial's directory; `None` if the file does not exist."""
    files, folder = _place(trial)
    if files.get_file_info(f"{folder}/{name}").type == FileType.NotFound:
        return None
    with files.open_input_stream(f"{folder}/{name}") as stream:
        return json.loads(stream.read())


def _place(trial: Trial) -> tuple[FileSystem, str]:
    """File system and path of a trial's directory."""
    assert trial.storage is not None
    return trial.storage.storage_filesystem, trial.storage.trial_fs_path
