"""What Ray Tune decides in a sweep: the next point, and whether a trial goes on.

Decisions and what they were made of are lines of two files in the sweep's folder, on disk before
they take effect. A sweep that is resumed after a kill replays them and decides as it would have.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from trca.common.json_lines import append_lines, read_lines
from trca.tune_configs.sweeps import plain

if TYPE_CHECKING:
    from trca.tune_configs.sweeps import SweepSettings

_TIME: Final = "training_iteration"


@dataclass(frozen=True)
class Result:
    """What a point came to.

    Attributes:
        value: The metric, mean over its trials; None when one of them failed.
        iteration: Where it was stopped early; None when all its trials ran to their end.
    """

    value: float | None
    iteration: int | None = None


class Lines:
    """A file of JSON lines that a kill leaves readable."""

    def __init__(self, path: Path) -> None:
        """Reads the file, without a line that is not whole."""
        self._path = path
        self._rows = read_lines(path)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, number: int) -> dict[str, Any]:
        return self._rows[number]

    def append(self, row: Mapping[str, Any]) -> None:
        """Adds a line; it is on disk when this returns."""
        self._rows.append(dict(row))
        append_lines(self._path, [row])


class PointSearch:
    """Optuna's points, one after the other, through Ray Tune's `OptunaSearch`.

    A point is chosen from the results of the points before it, all but the last few that may run
    beside it. Results are taken in the order of the points and not as they come in: the same seed
    and the same results give the same points.
    """

    def __init__(self, sweep: SweepSettings, path: Path) -> None:
        """Makes the search.

        Args:
            sweep: A sweep with a search.
            path: The file of results, which may be there from before.
        """
        from optuna import logging as optuna_logging
        from optuna.samplers import TPESampler
        from ray import tune
        from ray.tune.search.optuna import OptunaSearch
        from ray.tune.search.sample import Categorical

        assert sweep.search is not None
        optuna_logging.set_verbosity(logging.WARNING)
        spaces = sweep.spaces()
        self._choices = {k: s.categories for k, s in spaces.items() if isinstance(s, Categorical)}
        # Choices by number: Optuna takes plain values alone, and a choice may be a mapping.
        plain = {k: tune.choice(range(len(values))) for k, values in self._choices.items()}
        sampler = TPESampler(
            n_startup_trials=sweep.search.optuna.startup_points, seed=sweep.sample_seed
        )
        self._search = OptunaSearch(
            OptunaSearch.convert_search_space({**spaces, **plain}),
            metric=sweep.metric,
            mode="max",
            sampler=sampler,
        )
        self._metric = sweep.metric
        self._most = sweep.samples
        self._open = -(-sweep.side_by_side // sweep.repeats)
        self._results = Lines(path)
        self._told = 0
        self._suggested = 0

    def next(self, result_of: Callable[[int], Result | None]) -> dict[str, Any] | None:
        """The next point.

        Args:
            result_of: The result of a point by its number; None while there is none.

        Returns:
            The point; None while the search waits for a result, and after the last point.
        """
        if self._suggested == self._most:
            return None
        while self._told <= self._suggested - self._open:
            if self._told == len(self._results):
                result = result_of(self._told)
                if result is None:
                    return None
                self._results.append({"point": self._told, **asdict(result)})
            recorded = self._results[self._told]
            self._tell(str(self._told), Result(recorded["value"], recorded["iteration"]))
            self._told += 1
        found = self._search.suggest(str(self._suggested))
        self._suggested += 1
        assert found is not None
        return {key: self._value(key, value) for key, value in found.items()}

    def _value(self, key: str, value: Any) -> Any:
        return self._choices[key][value] if key in self._choices else plain(value)

    def _tell(self, point: str, result: Result) -> None:
        """Optuna leaves out a failed point, and ranks a stopped one below those that ended."""
        if result.value is None:
            self._search.on_trial_complete(point, error=True)
        elif result.iteration is None:
            self._search.on_trial_complete(point, {self._metric: result.value})
        else:
            self._search.on_trial_result(
                point, {self._metric: result.value, _TIME: result.iteration}
            )
            self._search.on_trial_complete(point)


@dataclass(frozen=True)
class _Named:
    """What Ray Tune's schedulers read of a trial."""

    trial_id: str


class EarlyStopping:
    """Ray Tune's `ASHAScheduler` over the trials of a sweep.

    A trial is compared with those of the same panel and seed alone: another panel may be harder.

    Attributes:
        stopped: The trials stopped so far: name to the line of the decision.
    """

    def __init__(self, sweep: SweepSettings, iterations: int, path: Path) -> None:
        """Makes the schedulers.

        Args:
            sweep: A sweep with a scheduler.
            iterations: The length of its trials.
            path: The file of decisions, which may be there from before.
        """
        assert sweep.scheduler is not None
        self._asha = sweep.scheduler.asha
        self._metric = sweep.metric
        self._iterations = iterations
        self._schedulers: dict[str, Any] = {}
        self._judged: dict[str, int] = {}
        self.stopped: dict[str, dict[str, Any]] = {}
        self._lines = Lines(path)
        for line in self._lines:
            self._decide(line["trial"], line["among"], line["iteration"], line["value"])
            self._note(line)

    def stops(self, trial: str, among: str, iteration: int, value: float) -> bool:
        """Whether a trial stops after an iteration.

        Args:
            trial: Its name.
            among: What trials it is compared with have in common.
            iteration: The iteration, each once and in order; those judged before are left out.
            value: The metric.
        """
        if trial in self.stopped:
            return True
        if iteration <= self._judged.get(trial, 0) or iteration >= self._iterations:
            return False
        stop = self._decide(trial, among, iteration, value)
        line = {"trial": trial, "among": among, "iteration": iteration, "value": value}
        self._lines.append({**line, "stop": stop})
        self._note({**line, "stop": stop})
        return stop

    def _note(self, line: dict[str, Any]) -> None:
        self._judged[line["trial"]] = line["iteration"]
        if line["stop"]:
            self.stopped[line["trial"]] = line

    def _decide(self, trial: str, among: str, iteration: int, value: float) -> bool:
        from ray.tune.schedulers import ASHAScheduler, TrialScheduler

        named: Any = _Named(trial)
        if among not in self._schedulers:
            self._schedulers[among] = ASHAScheduler(
                time_attr=_TIME,
                metric=self._metric,
                mode="max",
                max_t=self._iterations,
                grace_period=self._asha.grace_period,
                reduction_factor=self._asha.reduction_factor,
            )
        scheduler = self._schedulers[among]
        if trial not in self._judged:
            scheduler.on_trial_add(None, named)
        result = {_TIME: iteration, self._metric: value}
        return bool(scheduler.on_trial_result(None, named, result) == TrialScheduler.STOP)
