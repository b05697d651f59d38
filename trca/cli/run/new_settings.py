"""Options that commands share, and the settings of a new run that follow from them."""

from __future__ import annotations

from typing import Annotated, Any

import typer

ConfigArgument = Annotated[
    str, typer.Argument(help="A config that comes with the package, or a YAML file.")
]
AlgorithmOption = Annotated[
    str | None,
    typer.Option(help="Such as TRCA or GiGPO, with its credit rule: docs/algorithms.md lists all."),
]
ModelOption = Annotated[
    str | None, typer.Option(help="tiny, a Hugging Face name, or a model folder.")
]
EnvOption = Annotated[
    str | None,
    typer.Option(
        help="An environment in place of the config's: an id, module:Class or file.py:Class."
    ),
]
GamesOption = Annotated[
    str | None,
    typer.Option(
        help="ALFWorld: small, medium, large, small-SEED, official, or a folder or archive."
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Any setting; repeatable."),
]
EnvSetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Argument of the environment; repeatable."),
]
NameOption = Annotated[
    str | None, typer.Option(help="Name of the new folder. [default: the config's]")
]
StorageOption = Annotated[
    str, typer.Option(help="Folder that holds the runs, or a URI such as s3://bucket/runs.")
]
RunsOption = Annotated[
    str, typer.Option("--storage-path", help="Folder or URI that holds the runs.")
]
RolloutsArgument = Annotated[
    str,
    typer.Argument(metavar="RUN", help="A run, or a .parquet file of trca evaluate --transcripts."),
]
EndpointOption = Annotated[
    str | None,
    typer.Option(help="Base URL of an OpenAI-compatible endpoint; the key is OPENAI_API_KEY."),
]
AutoResumeOption = Annotated[
    bool,
    typer.Option(
        "--auto-resume", help="Resume the folder of this name if it exists: for jobs that restart."
    ),
]


def given_settings(
    set_: list[str] | None,
    *,
    algorithm: str | None = None,
    model: str | None = None,
    env: str | None = None,
    games: str | None = None,
    seed: int | None = None,
    iterations: int | None = None,
) -> dict[str, Any]:
    """The settings that the options of a command give, by key; ``--set`` has precedence."""
    from trca.tune_configs.files import absolute, assignments

    options = {
        "algorithm": algorithm,
        "model": model,
        "env": env,
        "env_config.games": games,
        "seed": seed,
        "iterations": iterations,
    }
    given = {key: value for key, value in options.items() if value is not None}
    return absolute(given) | assignments(set_ or [])


def new_settings(config: str, given: dict[str, Any]) -> dict[str, Any]:
    """The flat settings of a new run: a config by name or path, and changes of `given_settings`.

    Raises a `ConfigError` for a config that does not exist, and for a sweep.
    """
    from trca.algorithms.settings.parameters import in_environment, switch
    from trca.tune_configs.files import ConfigError, assign, read

    base = read(config)
    if "base" in base:
        raise ConfigError(f"{config} is a sweep: start it with trca sweep {config}")
    if "algorithm" in given:
        base = switch(base, given["algorithm"])
    if "env" in given:
        base = in_environment(base, given["env"])
    return assign(base, given)
