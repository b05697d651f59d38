"""Algorithms by name: their hyperparameters, and settings for another algorithm."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from trca.algorithms.settings.parameters import TextParameters, family
from trca.common.names import nearest
from trca.tune_configs.files import ConfigError
from trca.tune_configs.run_parameters import RunParameters

_RULES: Final = "trca.algorithms.rules"


def parameter_models() -> dict[str, type[TextParameters]]:
    """The hyperparameters of each algorithm by its name. Loads neither Ray nor PyTorch."""
    for path in sorted(Path(__file__).parents[1].glob("rules/[!_]*.py")):
        import_module(f"{_RULES}.{path.stem}")
    packaged = [model for model in family() if model.__module__.startswith(f"{_RULES}.")]
    return {model.algorithm: model for model in packaged}


def algorithm_name(name: str) -> str:
    """The name of an algorithm as `trca.algorithms.ALGORITHMS` has it; case does not matter.

    Raises:
        ConfigError: For an unknown algorithm; names the nearest.
    """
    algorithms = parameter_models()
    for algorithm in algorithms:
        if algorithm.casefold() == str(name).casefold():
            return algorithm
    raise ConfigError(f"algorithm is {name!r}: {nearest(str(name), algorithms)}")


def parameters_class(algorithm: str) -> type[TextParameters]:
    """The hyperparameters of an algorithm. Loads neither Ray nor PyTorch.

    Raises:
        ConfigError: When there is no such algorithm; names the nearest.
    """
    return parameter_models()[algorithm_name(algorithm)]


def switch(settings: Mapping[str, Any], algorithm: str | type[TextParameters]) -> dict[str, Any]:
    """The settings for another algorithm.

    Ignores settings that the new algorithm does not have, settings whose default it changes,
    changed defaults of the old algorithm, and its credit rule. The credit rule of a user's file is
    replaced too, by the same algorithm as well.

    Args:
        settings: Flat settings.
        algorithm: The name of an algorithm, or the hyperparameters of one.

    Raises:
        ConfigError: For an unknown algorithm; names the nearest.
    """
    name = settings.get("algorithm", RunParameters.model_fields["algorithm"].default)
    before = parameters_class(name)
    after = parameters_class(algorithm) if isinstance(algorithm, str) else algorithm
    left_out = before.model_fields.keys() - after.model_fields.keys()
    if after is not before:
        fields = before.model_fields
        left_out |= after.own_defaults()
        left_out |= {k for k in before.own_defaults() if settings.get(k) == fields[k].default}
    if after is not before or settings.get("credit", before.own_rule()) != before.own_rule():
        left_out |= {"credit", "credit_config"}
    kept = {k: v for k, v in settings.items() if k not in left_out}
    return {**kept, "algorithm": after.algorithm}
