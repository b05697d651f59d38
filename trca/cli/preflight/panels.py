"""The panels of a run's settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trca.envs.panel import Panel
    from trca.tune_configs.settings import RunSettings


def panels(settings: RunSettings) -> dict[str, Panel]:
    """The training panel and the evaluation panel, by ``train`` and ``evaluation``."""
    parameters = settings.parameters
    return {
        "train": panel(settings, settings.train_split),
        "evaluation": panel(settings, settings.evaluation_split).head(parameters.evaluation_tasks),
    }


def panel(settings: RunSettings, split: str) -> Panel:
    """All tasks of a split of the run's environment.

    Raises:
        ValueError: When the environment has no such split; lists the known ones.
    """
    from trca.envs import make

    env = make(settings.run.env, **{**settings.run.env_config, "split": split})
    try:
        found: Panel = env.get_wrapper_attr("panel")
        return found
    finally:
        env.close()
