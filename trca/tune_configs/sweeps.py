"""`SweepSettings`: a grid of settings over one config, with seeds and panels, as a file says it.

base: quickstart          the config every trial starts from
set: {iterations: 12}     what is changed in all of them
grid: {lambda_: [0.2, 0.8]}
sample:                   drawn for each of ``samples`` points of every point of the grid
  lr: {loguniform: [1e-4, 1e-3]}
samples: 8
seeds: [0, 1, 2]
panels:                   tasks that every point is run on with every seed
  - {env_config.games: small-31}
  - {env_config.games: small-32}
side_by_side: 2           trials at a time
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from trca.common.names import nearest
from trca.tune_configs.files import ConfigError, assign, read
from trca.tune_configs.settings import RunSettings, switch


class SweepSettings(BaseModel):
    """A sweep."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    base: str = Field(description="Config every trial starts from: a name or a path.")
    set: dict[str, Any] = Field(default_factory=dict, description="Changed in every trial.")
    grid: dict[str, Annotated[list[Any], Field(min_length=1)]] = Field(
        default_factory=dict,
        description="Settings and the values each takes; all combinations are run.",
    )
    sample: dict[str, Annotated[dict[str, list[Any]], Field(min_length=1, max_length=1)]] = Field(
        default_factory=dict,
        description="Settings that are drawn, each by a distribution of Ray Tune and its arguments:"
        " `{uniform: [0, 1]}`, loguniform, quniform, randint, choice and so on.",
    )
    samples: int = Field(1, ge=1, description="Draws for every point of the grid.")
    seeds: Annotated[list[int], Field(min_length=1)] = Field(description="Seeds of each point.")
    panels: Annotated[list[dict[str, Any]], Field(min_length=1)] = Field(
        default_factory=lambda: [dict[str, Any]()],
        description="Settings of each panel of tasks; each point runs on all, with all seeds.",
    )
    side_by_side: int = Field(2, ge=1, description="Trials at a time.")

    @classmethod
    def resolve(
        cls, settings: Mapping[str, Any], source: str, need_data: bool = True
    ) -> SweepSettings:
        """Checks a sweep and every one of its trials.

        Raises:
            ConfigError: Names the key, its value, and what is allowed.
        """
        for key in settings:
            if key not in cls.model_fields:
                raise ConfigError(
                    f"{source}: unknown key {key!r}: {nearest(key, cls.model_fields)}"
                )
        try:
            sweep = cls(**settings)
        except ValidationError as error:
            detail = error.errors(include_url=False)[0]
            name = ".".join(map(str, detail["loc"]))
            raise ConfigError(f"{source}: {name} is {detail['input']!r}: {detail['msg']}") from None
        if not (sweep.grid or sweep.sample):
            raise ConfigError(f"{source}: give grid or sample, or both: else it is a single run")
        for key in sweep.grid.keys() & sweep.sample.keys():
            raise ConfigError(f"{source}: {key} is in grid and in sample: leave it in one")
        for key in {key for panel in sweep.panels for key in panel} & sweep.grid.keys():
            raise ConfigError(f"{source}: {key} is in grid and in panels: leave it in one")
        for point in sweep.points():
            sweep.trial(point, sweep.seeds[0], source, need_data)
        for panel in sweep.panels[1:]:
            sweep.trial({**sweep.points()[0], **panel}, sweep.seeds[0], source, need_data)
        return sweep

    def points(self) -> list[dict[str, Any]]:
        """The points: the last setting of the grid runs fastest, but for the draws.

        The draws are the same every time.

        Raises:
            ConfigError: For a distribution that Ray Tune does not have, or wrong arguments.
        """
        found = [
            dict(zip(self.grid, values, strict=True))
            for values in itertools.product(*self.grid.values())
        ]
        if not self.sample:
            return found
        spaces = {key: _distribution(key, space) for key, space in self.sample.items()}
        rng = np.random.default_rng(0)
        return [
            {**point, **{key: _drawn(space, rng) for key, space in spaces.items()}}
            for point in found
            for _ in range(self.samples)
        ]

    @property
    def repeats(self) -> int:
        """Trials of each point."""
        return len(self.seeds) * len(self.panels)

    def trial(
        self, point: Mapping[str, Any], seed: int, source: str = "sweep", need_data: bool = True
    ) -> RunSettings:
        """The settings of one trial; what an algorithm of the grid does not have is left out.

        Args:
            point: The point, with the settings of a panel; those of the first panel where it has
                none.
            seed: The seed.
            source: What errors call it.
            need_data: Whether official data that is not on this machine is an error.

        Raises:
            ConfigError: When they are no settings of a run.
        """
        base = read(self.base)
        if "algorithm" in self.set:
            base = switch(base, self.set["algorithm"])
        base = assign(base, self.set)
        if "algorithm" in point:
            base = switch(base, point["algorithm"])
        chosen = {**self.panels[0], **point, "seed": seed}
        return RunSettings.resolve(assign(base, chosen), source, need_data)


def _distribution(key: str, space: Mapping[str, list[Any]]) -> Any:
    """A distribution of Ray Tune."""
    from ray import tune
    from ray.tune.search.sample import Domain

    [(name, arguments)] = space.items()
    known = ("choice", "uniform", "loguniform", "quniform", "qloguniform", "randint", "lograndint")
    if name not in known:
        raise ConfigError(f"sample.{key}: no distribution {name!r}: {nearest(name, known)}")
    try:
        made = getattr(tune, name)(*([arguments] if name == "choice" else arguments))
        assert isinstance(made, Domain)
        made.sample(random_state=np.random.default_rng(0))
    except (TypeError, ValueError, IndexError) as error:
        raise ConfigError(f"sample.{key}: {name} of {arguments}: {error}") from None
    return made


def _drawn(space: Any, rng: np.random.Generator) -> Any:
    """A value; of numbers the first three digits, which read well and tell draws apart."""
    value = space.sample(random_state=rng)
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (float, np.floating)):
        return float(f"{value:.3g}")
    return int(value) if isinstance(value, np.integer) else value
