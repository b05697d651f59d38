"""The settings of an RLlib config, as a run folder records them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from trca.algorithms.rollouts.environments import default_split
from trca.tune_configs.run_parameters import RunParameters, Settings

if TYPE_CHECKING:
    from trca.algorithms.settings.policy_config import PolicyConfig


def settings_of(config: PolicyConfig) -> Settings:
    """The settings of a config.

    An environment class becomes ``module:Class``. An argument of the environment that YAML cannot
    express becomes text.
    """
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
    return Settings(RunParameters(**given), parameters)


def plain(value: Any) -> Any:
    """A value as YAML has it: mappings, lists, numbers and text."""
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(each) for each in value]
    if isinstance(value, np.generic):
        return value.item()
    return value if value is None or isinstance(value, str | int | float) else str(value)
