"""`SweepSettings`: points and a grid of settings over one config, with seeds and panels.

::

    base: quickstart          the config of all trials
    set: {iterations: 12}     changes of the config
    points:                   settings that belong together, each run with the full grid
      - {algorithm: TRCA, lr: 4e-4}
      - {algorithm: GRPO, lr: 2e-4}
    grid: {group_size: [4, 8]}
    sample:                   distributions; ``samples`` draws for each point of the grid
      gamma: {uniform: [0.9, 1.0]}
    samples: 8
    search: optuna            chooses the ``samples`` points from earlier results, without a grid
    scheduler: asha           stops trials early that are behind
    metric: success_rate      read by search and scheduler
    seeds: [0, 1, 2]
    panels:                   panels of tasks; every point runs on each, with every seed
      - {env_config.games: small-31}
      - {env_config.games: small-32}
    side_by_side: 2           most trials at a time
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Annotated, Any, Final

import numpy as np
from pydantic import BaseModel, BeforeValidator, Field, ValidationError

from trca.algorithms.settings.parameters import (
    DEFAULT_ALGORITHM,
    TextParameters,
    parameters_class,
    switch,
)
from trca.common.extras import missing_extra
from trca.common.names import nearest
from trca.tune_configs.files import ConfigError, assign, read
from trca.tune_configs.run_parameters import Count, Positive, Settings

METRICS: Final = ("success_rate", "score", "evaluation/success_rate", "evaluation/score")
"""Metrics for searches and schedulers; more is better."""
_DISTRIBUTIONS: Final = (
    *("choice", "uniform", "loguniform", "quniform", "qloguniform", "randint", "lograndint"),
)


class Optuna(Settings):
    """The search by Optuna's TPE sampler, through Ray Tune's `OptunaSearch`."""

    startup_points: Positive = 4
    """Points drawn at random before results are used."""


class ASHA(Settings):
    """Asynchronous successive halving: Ray Tune's `ASHAScheduler`."""

    grace_period: Positive = 1
    """Iterations that every trial gets."""
    reduction_factor: Annotated[float, Field(gt=1)] = 4
    """About one in this many trials continues after each rung."""


class Search(Settings):
    """The choice of points."""

    optuna: Optuna
    """Points near the best earlier points."""


class Scheduler(Settings):
    """Early stopping of trials."""

    asha: ASHA
    """Stops trials that are behind at the same iteration."""


_PARTS: Final[dict[str, type[BaseModel]]] = {
    "search": Search,
    "scheduler": Scheduler,
    "optuna": Optuna,
    "asha": ASHA,
}


def _named(value: Any) -> Any:
    """``optuna`` is short for ``{optuna: {}}``."""
    return {value: {}} if isinstance(value, str) else value


class SweepSettings(Settings):
    """A sweep."""

    base: str | dict[str, Any]
    """Config of all trials: a name, a path or a mapping of settings."""
    set: dict[str, Any] = Field(default_factory=dict)
    """Changes of the config in all trials."""
    points: Annotated[list[dict[str, Any]], Field(min_length=1)] = Field(
        default_factory=lambda: [dict[str, Any]()]
    )
    """Settings that belong together, such as an algorithm and its learning rate. Each entry runs
    with the full grid."""
    grid: dict[str, Annotated[list[Any], Field(min_length=1)]] = Field(default_factory=dict)
    """Settings and their values; all combinations run."""
    sample: dict[str, Annotated[dict[str, list[Any]], Field(min_length=1, max_length=1)]] = Field(
        default_factory=dict
    )
    """Settings with a distribution of Ray Tune and its arguments: `{uniform: [0, 1]}`, loguniform,
    quniform, randint, choice and so on."""
    samples: Positive = 1
    """Draws for each point of the grid; with a search, the number of points."""
    sample_seed: Count = 0
    """Seed of the draws and of the search."""
    search: Annotated[Search | None, BeforeValidator(_named)] = None
    """Chooses the points from earlier results: `optuna`."""
    scheduler: Annotated[Scheduler | None, BeforeValidator(_named)] = None
    """Stops trials early: `asha`."""
    metric: str = "success_rate"
    """Metric for search and scheduler."""
    seeds: Annotated[list[Count], Field(min_length=1)]
    """Seeds of each point."""
    panels: Annotated[list[dict[str, Any]], Field(min_length=1)] = Field(
        default_factory=lambda: [dict[str, Any]()]
    )
    """Settings of each panel of tasks; all points run on it, with all seeds."""
    side_by_side: Positive | None = 2
    """Most trials at a time; null: as many as the resources allow."""

    @classmethod
    def resolve(
        cls, settings: Mapping[str, Any], source: str, need_data: bool = True
    ) -> SweepSettings:
        """Checks a sweep and all its trials; a `ConfigError` names key, value and fix."""
        try:
            sweep = cls(**settings)
        except ValidationError as error:
            raise ConfigError(f"{source}: {_explain(error)}") from None
        if not (sweep.grid or sweep.sample or any(sweep.points)):
            raise ConfigError(
                f"{source}: give points, grid or sample; a single run needs no sweep: trca train"
            )
        if problem := sweep._key_problem():
            raise ConfigError(f"{source}: {problem}")
        points = sweep.checked(source, need_data)
        trials = [trial for _, panels in points for trial in panels]
        problem = (
            sweep._search_problem()
            or sweep._metric_problem(trials)
            or sweep._scheduler_problem(len(points), trials)
        )
        if problem:
            raise ConfigError(f"{source}: {problem}")
        return sweep

    def checked(
        self, source: str = "sweep", need_data: bool = True
    ) -> list[tuple[dict[str, Any], list[TextParameters]]]:
        """All points, each with the settings of its trials on each panel for the first seed."""
        return [
            (
                point,
                [
                    self.trial({**panel, **point}, self.seeds[0], source, need_data)
                    for panel in self.panels
                ],
            )
            for point in self.every_point()
        ]

    def _key_problem(self) -> str:
        """The first setting that another setting would override; empty without one."""
        parts = {
            "set": self.set.keys(),
            "points": {key for point in self.points for key in point},
            "grid": self.grid.keys(),
            "sample": self.sample.keys(),
            "panels": {key for panel in self.panels for key in panel},
        }
        named = [(part, key) for part, keys in parts.items() for key in sorted(keys)]
        for (one, key), (other, inner) in itertools.combinations(named, 2):
            if key == inner:
                return f"{key} is in {one} and in {other}: leave it in one"
            if inner.startswith(f"{key}.") or key.startswith(f"{inner}."):
                return f"{key} is in {one} and {inner} in {other}: one would replace the other"
        for name, several in (("points", self.points), ("panels", self.panels)):
            for number, each in enumerate(several):
                if odd := sorted(each.keys() ^ several[0].keys()):
                    return f"{name}: {odd[0]} is in some and not in others: give it in each"
                if each in several[:number]:
                    return f"{name}: {each} is listed twice"
        for name, keys in parts.items():
            if "seed" in keys:
                return f"seed is in {name}: give seeds"
        if len(set(self.seeds)) < len(self.seeds):
            return f"seeds is {self.seeds}: a seed is listed twice"
        for key, values in self.grid.items():
            if any(value in values[:number] for number, value in enumerate(values)):
                return f"grid: {key} is {values}: a value is listed twice"
        if self.samples > 1 and not (self.sample or self.search):
            return f"samples is {self.samples} and there is no sample: give more seeds to repeat"
        return ""

    def _search_problem(self) -> str:
        """A contradiction between the search and further keys; empty without one."""
        if self.metric not in METRICS:
            return f"metric is {self.metric!r}: {nearest(self.metric, METRICS)}"
        if self.search is None:
            return ""
        if self.grid or any(self.points):
            return (
                "search is optuna and there are points or a grid: Optuna chooses them, so write"
                " `sample: {name: {choice: [...]}}` in place of `grid: {name: [...]}`"
            )
        if drawn := [key for key, space in self.sample.items() if "qloguniform" in space]:
            return f"sample.{drawn[0]}: Optuna has no qloguniform: take loguniform or quniform"
        if self.side_by_side is None:
            return "search is optuna and side_by_side is null: give the trials at a time"
        if self.samples == 1:
            return "search is optuna and samples is 1: give the number of points, such as 8"
        return missing_extra("optuna", "search: optuna", "optuna")

    def _metric_problem(self, trials: list[TextParameters]) -> str:
        """A metric that does not measure the policy."""
        if not (self.search or self.scheduler) or self.metric.startswith("evaluation/"):
            return ""
        others = ("demonstrator", "recorded")
        if any(getattr(trial, "demonstrations", "") in others for trial in trials):
            return (
                f"metric is {self.metric}, and in training it is the demonstrator's: set metric to"
                f" evaluation/{self.metric}"
            )
        return ""

    def _scheduler_problem(self, points: int, trials: list[TextParameters]) -> str:
        """A contradiction between the scheduler, the number of points and the trials."""
        if self.scheduler is None:
            return ""
        if points < 2:
            return "scheduler is asha and there is 1 point: it compares points"
        lengths = sorted({trial.iterations for trial in trials})
        if len(lengths) > 1:
            return (
                f"scheduler is asha and trials have {lengths} iterations: it compares trials of"
                " one length, so leave iterations out of the points"
            )
        grace = self.scheduler.asha.grace_period
        if grace >= lengths[0]:
            return (
                f"scheduler.asha.grace_period is {grace} and trials have {lengths[0]} iterations:"
                " none would be stopped: lower it"
            )
        between = {trial.evaluation_interval for trial in trials}
        rare = [each for each in between if each is None or each > grace]
        if rare and self.metric.startswith("evaluation/"):
            return (
                f"metric is {self.metric} and evaluation_interval is {rare[0]}: ASHA reads it"
                f" after {grace} iterations: set evaluation_interval to {grace} or less"
            )
        return ""

    def with_base(self) -> SweepSettings:
        """The sweep with the settings of its base in place of the name."""
        return self.model_copy(update={"base": _base(self.base)})

    def spaces(self) -> dict[str, Any]:
        """The distributions of ``sample``, of Ray Tune; a `ConfigError` for wrong ones."""
        return {key: _distribution(key, space) for key, space in self.sample.items()}

    def every_point(self) -> list[dict[str, Any]]:
        """All points. Draws change fastest, then the last setting of the grid.

        The draws depend only on ``sample_seed``. With a search they are examples of its points, for
        checks before the start.
        """
        points = [
            {**point, **dict(zip(self.grid, values, strict=True))}
            for point in self.points
            for values in itertools.product(*self.grid.values())
        ]
        if not self.sample:
            return points
        spaces, rng = self.spaces(), np.random.default_rng(self.sample_seed)
        return [
            {
                **point,
                **{key: plain(space.sample(random_state=rng)) for key, space in spaces.items()},
            }
            for point in points
            for _ in range(self.samples)
        ]

    @property
    def repeats(self) -> int:
        """Trials of each point."""
        return len(self.seeds) * len(self.panels)

    def largest(self) -> TextParameters:
        """The settings of the trial that asks Ray for the most GPUs, then the most CPUs."""
        trials = (trial for _, panels in self.checked(need_data=False) for trial in panels)
        return max(trials, key=lambda trial: trial.resources()[::-1])

    def trial(
        self, point: Mapping[str, Any], seed: int, source: str = "sweep", need_data: bool = True
    ) -> TextParameters:
        """The settings of one trial, without settings that its algorithm does not have.

        ``point`` has the point and the settings of a panel; the first panel fills missing settings.
        """
        base, changes = _base(self.base), self.set
        if algorithm := point.get("algorithm", changes.get("algorithm")):
            before = base.get("algorithm", DEFAULT_ALGORITHM)
            base = switch(base, algorithm)
        if "algorithm" in point:
            others = [point["algorithm"] for point in self.points if "algorithm" in point]
            others += self.grid.get("algorithm", [])
            others += self.sample.get("algorithm", {}).get("choice", [])
            classes = [parameters_class(each) for each in (before, *others)]
            fields = {name for each in classes for name in each.model_fields}
            left_out = fields - parameters_class(algorithm).model_fields.keys()
            changes = {k: v for k, v in changes.items() if k.split(".")[0] not in left_out}
        chosen = {**self.panels[0], **point, "seed": seed}
        return TextParameters.resolve(assign(assign(base, changes), chosen), source, need_data)


def _base(base: str | Mapping[str, Any]) -> dict[str, Any]:
    return read(base) if isinstance(base, str) else dict(base)


def _explain(error: ValidationError) -> str:
    """An unknown key with the nearest name, else the first error."""
    details = error.errors(include_url=False)
    detail = next((d for d in details if d["type"] == "extra_forbidden"), details[0])
    name = ".".join(map(str, detail["loc"]))
    if detail["type"] != "extra_forbidden":
        return f"{name} is {detail['input']!r}: {detail['msg']}"
    *_, outer, key = ("", *map(str, detail["loc"]))
    allowed = _PARTS.get(outer, SweepSettings).model_fields
    return f"unknown key {name!r}: {nearest(key, allowed)}"


def _distribution(key: str, space: Mapping[str, list[Any]]) -> Any:
    """A distribution of Ray Tune."""
    from ray import tune
    from ray.tune.search.sample import Domain

    [(name, arguments)] = space.items()
    if name not in _DISTRIBUTIONS:
        raise ConfigError(
            f"sample.{key}: no distribution {name!r}: {nearest(name, _DISTRIBUTIONS)}"
        )
    try:
        made = getattr(tune, name)(*([arguments] if name == "choice" else arguments))
        assert isinstance(made, Domain)
        made.sample(random_state=np.random.default_rng(0))
    except (TypeError, ValueError, IndexError, ArithmeticError) as error:
        raise ConfigError(f"sample.{key}: {name} of {arguments}: {error}") from None
    return made


def plain(value: Any) -> Any:
    """A drawn value in Python's built-in types."""
    return value.item() if isinstance(value, np.generic) else value
