"""Ray Tune's searcher and scheduler, with repeats of each point over panels and seeds.

A trial is one repeat of a point. So repeats run in parallel and on several nodes, each has a run
folder, and each resumes from its last checkpoint. Two parts of Ray Tune 2.60 take a trial for a
point (paths below ``ray/tune``):

- ``search/repeater.py``: `Repeater` gives the searcher the mean of a point when its last repeat
  ends. The results before a point then depend on the speed of the trials. A stopped trial counts
  like an ended trial, and a failed trial is left out of the mean (``np.nanmean``); the docstring
  advises against early stopping. `PointSearch` gives results in the order of the points: equal
  seeds and results give equal points. A point with a failed trial has no result.
- ``schedulers/async_hyperband.py``: `ASHAScheduler` compares all trials of an experiment.
  `PanelASHA` has one for each panel and seed, since another panel may be harder.

Neither writes its state. In a resumed sweep both start with the recorded iterations of all trials,
and Tune starts the trials that have not ended.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from ray import tune
from ray.air.constants import TRAINING_ITERATION
from ray.tune.schedulers import ASHAScheduler, FIFOScheduler, TrialScheduler
from ray.tune.search import Searcher
from ray.tune.search.optuna import OptunaSearch
from ray.tune.search.sample import Categorical

from trca.algorithms.settings.sweeps import SweepSettings, plain
from trca.cli.run.training import stopping
from trca.cli.sweep.trial import ERROR, ITERATIONS, METRIC, TRAJECTORIES, result_of
from trca.cli.sweep.trials import OVER, Trial, by_point, planned
from trca.runs import STOPPED
from trca.runs.storage import write_json_to
from trca.tune_configs.files import ConfigError

if TYPE_CHECKING:
    from ray.tune.experiment import Trial as TuneTrial

logger = logging.getLogger(__name__)


def outcome(results: Sequence[Mapping[str, Any]]) -> tuple[float | None, int | None]:
    """The mean of the metric over a point's trials, and the iteration of the first early stop.

    ``results`` are the last results of the trials. The mean is `None` if a trial failed, and the
    iteration is `None` without an early stop.
    """
    values = [float(result.get(METRIC, math.nan)) for result in results]
    if any(ERROR in result for result in results) or any(map(math.isnan, values)):
        return None, None
    reached = [(int(each[TRAINING_ITERATION]), each[ITERATIONS]) for each in results]
    stops = [iteration for iteration, last in reached if iteration < last]
    return sum(values) / len(values), min(stops, default=None)


def recorded_results(sweep: SweepSettings, trial: Trial) -> list[dict[str, Any]]:
    """The results of the recorded iterations of a trial."""
    if not (rows := trial.run.metrics()):
        return []
    last = sweep.trial({**trial.panel_settings, **trial.point}, trial.seed).iterations
    return [result_of(rows[:count], sweep.metric, last) for count in range(1, len(rows) + 1)]


class PointSearch(Searcher):
    """Optuna's points, each repeated on each panel with each seed.

    Optuna chooses a point from the results of the points before it. The last few of these points
    may still run, and are left out in any case: `side_by_side` divided by the trials of a point.
    """

    def __init__(self, sweep: SweepSettings, trials: Sequence[Trial] = ()) -> None:
        """Makes a search; ``trials`` are the trials of the sweep so far."""
        from optuna import logging as optuna_logging
        from optuna.samplers import TPESampler

        super().__init__(metric=METRIC, mode="max")
        assert sweep.search is not None
        assert sweep.side_by_side is not None
        optuna_logging.set_verbosity(logging.WARNING)
        points = by_point(trials, sweep.repeats)
        spaces = sweep.spaces()
        self._choices = {k: s.categories for k, s in spaces.items() if isinstance(s, Categorical)}
        # Choices by number: Optuna takes plain values only, and a choice may be a mapping.
        numbers = {k: tune.choice(range(len(values))) for k, values in self._choices.items()}
        startup = sweep.search.optuna.startup_points
        self._search = OptunaSearch(
            OptunaSearch.convert_search_space({**spaces, **numbers}),
            metric=METRIC,
            mode="max",
            sampler=TPESampler(n_startup_trials=startup, seed=sweep.sample_seed),
        )
        self._sweep = sweep
        self._recorded = {number: each[0].point for number, each in points.items()}
        self._ended = {trial.run.name: trial for trial in trials if trial.state in OVER}
        self._open = -(-sweep.side_by_side // sweep.repeats)
        self._suggested = self._given = 0
        self._waiting: list[dict[str, Any]] = []
        self._points: dict[str, int] = {}
        self._results: dict[int, list[Mapping[str, Any]]] = {}
        self._unlearned: set[int] = set()

    def suggest(self, trial_id: str) -> Any:
        """The config of the next trial; `None` to wait for results; ``FINISHED`` after the last."""
        while not self._waiting:
            if self._suggested == self._sweep.samples:
                return Searcher.FINISHED
            if not self._give_results():
                return None
            self._waiting = self._next_trials()
        trial = self._waiting.pop(0)
        self._points[trial_id] = trial["number"]
        return {"trial": trial}

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        """Takes the last result of a trial."""
        if (point := self._points.pop(trial_id, None)) is not None:
            self._results[point].append(result or {})

    def save(self, checkpoint_path: str) -> None:
        """Writes nothing (see the module)."""

    def restore(self, checkpoint_path: str) -> None:
        """Reads nothing (see the module)."""

    def _give_results(self) -> bool:
        """Gives Optuna the results before the next point; False if a result is missing."""
        while self._given <= self._suggested - self._open:
            results = self._results.get(self._given, [])
            if self._given in self._unlearned:
                self._search.on_trial_complete(str(self._given), error=True)
            elif len(results) == self._sweep.repeats:
                self._give(str(self._given), *outcome(results))
            else:
                return False
            self._given += 1
        return True

    def _next_trials(self) -> list[dict[str, Any]]:
        """The trials of the next point that have not ended; empty if a run refuses its settings.

        The sweep checks the distributions before the start, but not each pair of drawn values.

        A recorded point stays. The search may give another point in its place when a failed trial
        was tried again, or with another version of Optuna; the search then learns nothing from the
        recorded point.
        """
        number = self._suggested
        self._suggested += 1
        draw: Any = self._search.suggest(str(number))
        choices = self._choices
        point = {k: choices[k][v] if k in choices else plain(v) for k, v in draw.items()}
        recorded = self._recorded.get(number, point)
        if recorded != json.loads(json.dumps(point)):
            logger.warning("the search chooses without the result of point %d", number + 1)
            self._unlearned.add(number)
            point = dict(recorded)
        try:
            for panel in self._sweep.panels:
                self._sweep.trial({**panel, **point}, self._sweep.seeds[0])
        except ConfigError as error:
            self._unlearned.add(number)
            logger.warning("point %d of the search is left out: %s", number + 1, error)
            return []
        trials = planned(self._sweep, [point], number)
        ended = [self._ended[each["name"]] for each in trials if each["name"] in self._ended]
        self._results[number] = [recorded_results(self._sweep, trial)[-1] for trial in ended]
        return [each for each in trials if each["name"] not in self._ended]

    def _give(self, point: str, value: float | None, stop: int | None) -> None:
        """Gives Optuna an outcome: it ignores failed points, and ranks stopped points last."""
        if value is None:
            self._search.on_trial_complete(point, error=True)
        elif not stop:
            self._search.on_trial_complete(point, {METRIC: value})
        else:
            self._search.on_trial_result(point, {METRIC: value, TRAINING_ITERATION: stop})
            self._search.on_trial_complete(point)


class SweepScheduler(FIFOScheduler):
    """Starts trials in order. After Ctrl-C each trial ends after its iteration.

    Tune's handler of Ctrl-C waits 5 seconds and then kills the trials
    (``execution/tune_controller.py``: ``_cleanup_trials``). The running iterations would be lost.
    """

    def choose_trial_to_run(self, tune_controller: Any) -> TuneTrial | None:
        """The next trial; `None` once the sweep shall stop."""
        if stopping().is_set():
            return None
        chosen: TuneTrial | None = super().choose_trial_to_run(tune_controller)
        return chosen

    def on_trial_result(
        self, tune_controller: Any, trial: TuneTrial, result: dict[str, Any]
    ) -> str:
        """Whether the trial continues."""
        return str(TrialScheduler.STOP if stopping().is_set() else TrialScheduler.CONTINUE)


class PanelASHA(SweepScheduler):
    """An `ASHAScheduler` for the trials of each panel and seed.

    A stop is written to the trial's directory before it takes effect, and holds in a resumed sweep.
    """

    def __init__(self, sweep: SweepSettings, iterations: int, trials: Sequence[Trial] = ()) -> None:
        """Makes the schedulers; the recorded iterations of earlier trials judge later trials.

        ``iterations`` is the last iteration, the same in all trials.
        """
        super().__init__()  # type: ignore[no-untyped-call]
        assert sweep.scheduler is not None
        self._name = sweep.metric
        self._arguments: dict[str, Any] = {
            "time_attr": TRAINING_ITERATION,
            "metric": METRIC,
            "mode": "max",
            "max_t": iterations,
            **sweep.scheduler.asha.model_dump(),
        }
        self._schedulers: dict[str, ASHAScheduler] = {}
        for trial in trials:
            for result in recorded_results(sweep, trial):
                self._judge(trial.run.name, trial.panel_settings, trial.seed, result)

    def on_trial_result(
        self, tune_controller: Any, trial: TuneTrial, result: dict[str, Any]
    ) -> str:
        """Whether the trial continues: a trial that is behind at a rung stops."""
        decision = super().on_trial_result(tune_controller, trial, result)
        about = trial.config["trial"]
        judged = self._judge(about["name"], about["panel"], about["seed"], result)
        if judged == TrialScheduler.CONTINUE:
            return decision
        stop = {
            "iteration": int(result[TRAINING_ITERATION]),
            "trajectories": result.get(TRAJECTORIES),
            "metric": self._name,
            "value": result[METRIC],
        }
        write_json_to(trial.storage, STOPPED, stop)
        return judged

    def _judge(self, name: str, panel: Mapping[str, Any], seed: int, result: dict[str, Any]) -> str:
        """The decision of the scheduler of a panel and seed on a trial, which has one name."""
        if math.isnan(result[METRIC]):
            return str(TrialScheduler.CONTINUE)
        key = json.dumps([panel, seed], sort_keys=True)
        among: Any = self._schedulers.setdefault(key, ASHAScheduler(**self._arguments))
        trial = SimpleNamespace(trial_id=name)
        among.on_trial_add(None, trial)  # the results of a trial that it has stay
        return str(among.on_trial_result(None, trial, result))
