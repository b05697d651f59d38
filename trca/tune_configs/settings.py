"""`RunSettings`: the checked settings of a run, and their RLlib algorithm config.

A setting is a field of `RunParameters` (the run, and names of RLlib) or of the algorithm's
parameter model (`trca.algorithms.settings.parameters`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from trca.algorithms.settings.by_name import algorithm_name, parameters_class
from trca.common.names import nearest
from trca.common.registry import own_file
from trca.tune_configs.files import ConfigError
from trca.tune_configs.run_parameters import RunParameters, Settings

if TYPE_CHECKING:
    from trca.algorithms.base.text_config import TextAlgorithmConfig
    from trca.algorithms.settings.parameters import TextParameters

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class RunSettings(Settings):
    """Checked settings of one run.

    Attributes:
        run: Settings of the run, and names of RLlib.
        parameters: The algorithm's parameters, defaults included.
    """

    parameters: TextParameters

    @classmethod
    def resolve(
        cls,
        settings: Mapping[str, Any],
        source: str = "config",
        need_data: bool = True,
        open_env: Callable[[str, Mapping[str, Any]], object] | None = None,
    ) -> RunSettings:
        """Checks settings and fills in the defaults.

        Args:
            settings: Flat settings, as `files.read` and `files.assign` give them.
            source: Name of the settings in errors.
            need_data: Whether missing official data is an error.
            open_env: Makes an environment of its name and arguments; by default the environment is
                made and closed.

        Raises:
            ConfigError: Names every wrong key with its value, the allowed values, and the nearest
                match of an unknown key.
        """
        from trca.algorithms.settings.setting_names import unknown_setting
        from trca.envs.registration import default_split

        name = settings.get("algorithm", RunParameters.model_fields["algorithm"].default)
        try:
            name = algorithm_name(name)
        except ConfigError as error:
            raise ConfigError(f"{source}: {error}") from None
        settings = {**settings, "algorithm": name}
        model = parameters_class(name)
        if settings.pop("max_learner_restarts", 3) != 3:  # a setting of earlier versions
            logger.warning("%s: %s", source, unknown_setting("max_learner_restarts", model, ()))
        fields = {**RunParameters.model_fields, **model.model_fields}
        wrong = [
            unknown_setting(key, model, RunParameters.model_fields)
            for key in settings
            if key not in fields
        ]
        of_run = {k: v for k, v in settings.items() if k in RunParameters.model_fields}
        rest = {k: v for k, v in settings.items() if k in model.model_fields}
        run = _checked(RunParameters, of_run, wrong)
        parameters = _checked(model, rest, wrong)
        if not wrong:
            wrong += _env_errors(model, run.env, run.env_config, parameters, need_data, open_env)
        if wrong:
            raise ConfigError("\n".join(f"{source}: {message}" for message in wrong))
        if parameters.evaluation_split is None:
            split = default_split(run.env)
            parameters = parameters.model_copy(update={"evaluation_split": split})
        return cls(run, parameters)

    def algorithm_config(self) -> TextAlgorithmConfig:
        """The RLlib config of the settings."""
        return config_class(self.run.algorithm)().update_from_dict(self.rllib())

    @property
    def trajectories_per_iteration(self) -> int:
        """Maximum number of rollouts in an iteration, refilled groups included."""
        groups = self.parameters.tasks_per_iteration + self.parameters.refill_groups
        return groups * self.parameters.group_size


def config_class(algorithm: str) -> type[TextAlgorithmConfig]:
    """The config class of an algorithm.

    Raises:
        ConfigError: For an unknown algorithm; names the nearest.
    """
    from trca.algorithms import ALGORITHMS

    return ALGORITHMS[algorithm_name(algorithm)].config_class


def in_environment(settings: Mapping[str, Any], env: str) -> dict[str, Any]:
    """The settings for another environment, without arguments and splits of the old environment."""
    if own_file(env):
        env = str(Path(env).absolute())
    return {**settings, "env": env, "env_config": {}, "evaluation_split": None}


def _checked(model: type[Any], values: Mapping[str, Any], wrong: list[str]) -> Any:
    """Makes the model of the values; appends errors to ``wrong``."""
    from trca.algorithms.settings.parameters import explain

    try:
        return model(**values)
    except ValidationError as error:
        wrong += explain(model, error)
        return None


def _env_errors(
    model: type[TextParameters],
    env: str,
    env_config: Mapping[str, Any],
    parameters: TextParameters,
    need_data: bool,
    open_env: Callable[[str, Mapping[str, Any]], object] | None,
) -> list[str]:
    """Errors of the environment, its arguments and its splits."""
    from trca.algorithms.rollouts.environments import no_rubric
    from trca.envs.registration import arguments, default_split, make

    try:
        allowed = arguments(env)
    except ValueError as error:
        return [f"env is {env!r}: {error}"]
    unknown = [
        f"unknown key 'env_config.{key}': {nearest(key, allowed)}"
        for key in env_config
        if key not in allowed
    ]
    if unknown:
        return unknown
    if parameters.needs_rubric() and (lack := no_rubric(model.algorithm, env, env_config)):
        return [lack]
    given = {"split": "train", **env_config}
    try:
        evaluated = parameters.evaluation_split or default_split(env)
        for arguments_of_split in (given, {**given, "split": evaluated}):
            if open_env:
                open_env(env, arguments_of_split)
            else:
                make(env, **arguments_of_split).close()
    except (ValueError, TypeError, OSError, RuntimeError, ImportError) as error:
        if isinstance(error, FileNotFoundError) and not need_data:
            return []
        return [f"the environment {env} with {given}: {error}"]
    return []
