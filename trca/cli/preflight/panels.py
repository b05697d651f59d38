"""The panel of a split of a run's environment."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from trca.cli.preflight.environments import Environments

if TYPE_CHECKING:
    from trca.algorithms.settings.parameters import TextParameters
    from trca.envs.panel import Panel


def panel(settings: TextParameters, split: str) -> Panel:
    """All tasks of a split of the run's environment.

    Raises:
        ValueError: For an unknown split; the message gives the splits.
    """
    with closing(Environments()) as environments:
        tasks: Panel = environments.of_split(settings, split).get_wrapper_attr("panel")
        return tasks
