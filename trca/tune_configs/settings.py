"""`RunSettings`: everything a run is told, checked, and turned into an RLlib algorithm config.

A setting is a field of `RunParameters` (what a run needs, and RLlib's own names) or of the
algorithm's parameter model (`trca.algorithms.settings.parameters`). There is no third place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import ConfigDict, Field, ValidationError

from trca.common.names import nearest
from trca.common.registry import own_file
from trca.tune_configs.files import OWN_KEYS, ConfigError
from trca.tune_configs.recording import RecordingParameters

if TYPE_CHECKING:
    from trca.algorithms.base.text_algorithm import TextAlgorithm
    from trca.algorithms.base.text_config import TextAlgorithmConfig
    from trca.algorithms.settings.parameters import TextParameters

Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]


class RunParameters(RecordingParameters):
    """What a run needs beside its algorithm's parameters: RLlib's names, and the recorder's."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    algorithm: str = Field(
        "TRCA", description="The algorithm, one of `trca.algorithms.ALGORITHMS`."
    )
    env: str = Field(
        "trca/ALFWorld-v0",
        description="The environment: a Gymnasium id, module:Class or path/to/file.py:Class.",
    )
    env_config: dict[str, Any] = Field(
        default_factory=dict,
        description="Its arguments, such as games and max_steps.",
    )
    seed: Count = Field(0, description="Seed of the run.")
    num_env_runners: Count = Field(0, description="Processes that roll out; 0: the driver does.")
    num_cpus_per_env_runner: float = Field(1, ge=0, description="CPUs of each.")
    num_gpus_per_env_runner: float = Field(0, ge=0, description="GPUs of each.")
    num_learners: Count = Field(0, description="Processes that learn; 0: the driver does.")
    num_cpus_per_learner: float = Field(1, ge=0, description="CPUs of each.")
    num_gpus_per_learner: float = Field(0, ge=0, description="GPUs of each.")
    evaluation_interval: Positive | None = Field(
        None, description="Iterations between evaluations; none: only at the end."
    )
    restart_failed_env_runners: bool = Field(True, description="Restart runners that died.")

    def resources(self) -> tuple[float, float]:
        """CPUs and GPUs that its processes ask Ray for, beside the driver."""
        runners, learners = self.num_env_runners, self.num_learners
        return (
            runners * self.num_cpus_per_env_runner + learners * self.num_cpus_per_learner,
            runners * self.num_gpus_per_env_runner + learners * self.num_gpus_per_learner,
        )


@dataclass(frozen=True)
class RunSettings:
    """Checked settings of one run.

    Attributes:
        run: What the run needs, and RLlib's own names.
        parameters: The algorithm's parameters, defaults included.
    """

    run: RunParameters
    parameters: TextParameters

    @classmethod
    def resolve(
        cls, settings: Mapping[str, Any], source: str = "config", need_data: bool = True
    ) -> RunSettings:
        """Checks settings and fills in the defaults.

        Args:
            settings: Flat settings, as `files.read` and `files.assign` give them.
            source: What errors call them.
            need_data: Whether official data that is not on this machine is an error.

        Raises:
            ConfigError: Names every wrong key with its value, what is allowed, and the nearest
                match of an unknown one.
        """
        from trca.algorithms import ALGORITHMS
        from trca.algorithms.settings.setting_names import unknown_setting
        from trca.envs.registration import default_split

        name = settings.get("algorithm", RunParameters.model_fields["algorithm"].default)
        try:
            name = algorithm_name(name)
        except ConfigError as error:
            raise ConfigError(f"{source}: {error}") from None
        settings = {**settings, "algorithm": name}
        model = config_class(name).parameters_class
        known = {**RunParameters.model_fields, **model.model_fields}
        wrong = [
            unknown_setting(key, model, RunParameters.model_fields)
            for key in settings
            if key not in known
        ]
        own = {k: v for k, v in settings.items() if k in RunParameters.model_fields}
        rest = {k: v for k, v in settings.items() if k in model.model_fields}
        run = _checked(RunParameters, own, wrong)
        parameters = _checked(model, rest, wrong)
        if not wrong:
            wrong += _env_errors(ALGORITHMS[name], run.env, run.env_config, parameters, need_data)
        if wrong:
            raise ConfigError("\n".join(f"{source}: {message}" for message in wrong))
        if parameters.evaluation_split is None:
            split = default_split(run.env)
            parameters = parameters.model_copy(update={"evaluation_split": split})
        return cls(run, parameters)

    @classmethod
    def of(cls, config: TextAlgorithmConfig) -> RunSettings:
        """The settings of an RLlib config; the inverse of `algorithm_config`.

        An environment class becomes ``module:Class``, and an argument of the environment that YAML
        does not have becomes text.
        """
        from trca.algorithms.rollouts.environments import default_split

        env, model = config.env, config.parameters_class
        values = {name: getattr(config, name, None) for name in RunParameters.model_fields}
        values |= {"algorithm": model.algorithm, "seed": config.seed or 0}
        values["env"] = env if isinstance(env, str) else f"{env.__module__}:{env.__qualname__}"
        values["env_config"] = plain(config.env_config)
        given = {k: v for k, v in values.items() if v != "auto"}  # RLlib's word for its default
        parameters = model(**config.parameters())
        if parameters.evaluation_split is None:
            split = default_split(env, config.env_config)
            parameters = parameters.model_copy(update={"evaluation_split": split})
        return cls(RunParameters(**given), parameters)

    def flat(self) -> dict[str, Any]:
        """Every setting by name, defaults included, in plain types."""
        run, parameters = (m.model_dump(mode="json") for m in (self.run, self.parameters))
        return {"algorithm": run.pop("algorithm"), **run, **parameters}

    def algorithm_config(self) -> TextAlgorithmConfig:
        """The RLlib config that these settings stand for."""
        return config_class(self.run.algorithm)().update_from_dict(self.rllib())

    def rllib(self) -> dict[str, Any]:
        """The settings that are RLlib's to know: a flat config, as Ray Tune takes it."""
        return {key: value for key, value in self.flat().items() if key not in OWN_KEYS}

    @property
    def train_split(self) -> str:
        """Split of the training panel: that of ``env_config``, else ``train``."""
        return str(self.run.env_config.get("split", "train"))

    @property
    def evaluation_split(self) -> str:
        """Split of the evaluation panel."""
        return str(self.parameters.evaluation_split)

    @property
    def trajectories_per_iteration(self) -> int:
        """Most rollouts of an iteration, those of refilled groups included."""
        groups = self.parameters.tasks_per_iteration + self.parameters.refill_groups
        return groups * self.parameters.group_size


def plain(value: Any) -> Any:
    """A value as YAML has it: mappings, lists, numbers and text."""
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(each) for each in value]
    if isinstance(value, np.generic):
        return value.item()
    return value if value is None or isinstance(value, str | int | float) else str(value)


def algorithm_name(name: str) -> str:
    """The name of an algorithm as `trca.algorithms.ALGORITHMS` has it; case does not matter.

    Raises:
        ConfigError: When there is no such algorithm; names the nearest.
    """
    from trca.algorithms import ALGORITHMS

    for known in ALGORITHMS:
        if known.casefold() == str(name).casefold():
            return known
    raise ConfigError(f"algorithm is {name!r}: {nearest(str(name), ALGORITHMS)}")


def config_class(algorithm: str) -> type[TextAlgorithmConfig]:
    """The config class of an algorithm.

    Raises:
        ConfigError: When there is no such algorithm; names the nearest.
    """
    from trca.algorithms import ALGORITHMS

    return ALGORITHMS[algorithm_name(algorithm)].config_class


def switch(settings: Mapping[str, Any], algorithm: str) -> dict[str, Any]:
    """The settings for another algorithm.

    Leaves out what only the one before has, and what the other has a default of its own for.

    Raises:
        ConfigError: When there is no such algorithm; names the nearest.
    """
    name = settings.get("algorithm", RunParameters.model_fields["algorithm"].default)
    before, after = config_class(name).parameters_class, config_class(algorithm).parameters_class
    left_out = before.model_fields.keys() - after.model_fields.keys()
    if after is not before:
        left_out |= after.own_defaults()
    kept = {k: v for k, v in settings.items() if k not in left_out}
    return {**kept, "algorithm": algorithm_name(algorithm)}


def in_environment(settings: Mapping[str, Any], env: str) -> dict[str, Any]:
    """The settings for another environment, without the arguments and splits of the one before."""
    if own_file(env):
        env = str(Path(env).absolute())
    return {**settings, "env": env, "env_config": {}, "evaluation_split": None}


def _checked(model: type[Any], values: Mapping[str, Any], wrong: list[str]) -> Any:
    """Makes the model of the values; appends what is wrong with them to ``wrong``."""
    from trca.algorithms.settings.parameters import explain

    try:
        return model(**values)
    except ValidationError as error:
        wrong += explain(model, error)
        return None


def _env_errors(
    algorithm: type[TextAlgorithm],
    env: str,
    env_config: Mapping[str, Any],
    parameters: TextParameters,
    need_data: bool,
) -> list[str]:
    """What is wrong with the environment, its arguments and the splits named for it."""
    from trca.algorithms.rollouts.environments import no_rubric
    from trca.envs.registration import arguments, default_split, make

    try:
        known = arguments(env)
    except ValueError as error:
        return [f"env is {env!r}: {error}"]
    unknown = [
        f"unknown key 'env_config.{key}': {nearest(key, known)}"
        for key in env_config
        if key not in known
    ]
    if unknown:
        return unknown
    if algorithm.needs_rubric and (lack := no_rubric(algorithm.__name__, env, env_config)):
        return [lack]
    given = {"split": "train", **env_config}
    try:
        make(env, **given).close()
        evaluated = parameters.evaluation_split or default_split(env)
        make(env, **{**given, "split": evaluated}).close()
    except (ValueError, TypeError, OSError, RuntimeError, ImportError) as error:
        if isinstance(error, FileNotFoundError) and not need_data:
            return []
        return [f"the environment {env} with {given}: {error}"]
    return []
