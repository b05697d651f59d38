"""Environments of a run's settings, each made once, and the panels of their splits."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import gymnasium

    from trca.envs.panel import Panel
    from trca.tune_configs.settings import RunSettings

    TextEnvironment = gymnasium.Env[str, str]


class Environments:
    """Makes each environment once and keeps it open until `close`."""

    def __init__(self) -> None:
        self._made: dict[str, TextEnvironment] = {}

    def open(self, env: str, arguments: Mapping[str, Any]) -> TextEnvironment:
        """The environment of a name and its arguments, as `trca.envs.make` takes them.

        Raises:
            Exception: The environment's error; `FileNotFoundError` for missing official data.
        """
        from trca.envs.registration import make

        key = json.dumps([env, dict(arguments)], sort_keys=True, default=str)
        if key not in self._made:
            self._made[key] = make(env, **arguments)
        return self._made[key]

    def of_split(self, settings: RunSettings, split: str) -> TextEnvironment:
        """The environment of a run on a split; see `open`."""
        return self.open(settings.run.env, {**settings.run.env_config, "split": split})

    def panels(self, settings: RunSettings) -> dict[str, Panel]:
        """The training panel and the evaluation panel, by ``train`` and ``evaluation``.

        Raises:
            FileNotFoundError: When official data is not on this machine.
        """
        train, evaluation = (
            self.of_split(settings, split).get_wrapper_attr("panel")
            for split in (settings.train_split, settings.evaluation_split)
        )
        return {
            "train": train,
            "evaluation": evaluation.head(settings.parameters.evaluation_tasks),
        }

    def step_limit(self, settings: RunSettings) -> int:
        """The environment's step limit; without official data, the limit of its class."""
        try:
            env = self.of_split(settings, settings.train_split)
        except FileNotFoundError:
            return declared_step_limit(settings)
        return int(env.get_wrapper_attr("max_steps"))

    def close(self) -> None:
        """Closes all environments."""
        for env in self._made.values():
            env.close()
        self._made.clear()


def declared_step_limit(settings: RunSettings) -> int:
    """The step limit in the arguments of an environment, or the default of its class."""
    from trca.envs.plain import STEPS
    from trca.envs.registration import env_class

    if limit := settings.run.env_config.get("max_steps"):
        return int(limit)
    argument = inspect.signature(env_class(settings.run.env)).parameters.get("max_steps")
    default = argument.default if argument else None
    return default if isinstance(default, int) else STEPS


def panel(settings: RunSettings, split: str) -> Panel:
    """All tasks of a split of the run's environment.

    Raises:
        ValueError: For an unknown split; the message gives the splits.
    """
    with closing(Environments()) as environments:
        tasks: Panel = environments.of_split(settings, split).get_wrapper_attr("panel")
        return tasks
