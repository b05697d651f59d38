"""Canonical panels: named lists of tasks for comparing the results of different projects.

::

    panel = canonical_panel("official-134").draw()
    panel.hash, panel.task_ids[:3]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from trca.common import strict_yaml
from trca.common.names import nearest
from trca.envs.panel import Panel


@dataclass(frozen=True)
class CanonicalPanel:
    """A named panel.

    Attributes:
        name: Name of the panel.
        about: Description in one sentence.
        environment: Gymnasium id of the environment.
        env_config: Arguments of the environment that select the tasks.
        split: The split of the tasks.
        tasks: Number of tasks; None for the complete split.
        shuffled: Whether the tasks are a random sample of the split (seed 0). Else the panel has
            the first tasks of the split.
        hash: Hash of the panel; None if unknown.
    """

    name: str
    about: str
    environment: str
    env_config: Mapping[str, Any]
    split: str
    tasks: int | None = None
    shuffled: bool = False
    hash: str | None = None

    def draw(self, split: Panel | None = None) -> Panel:
        """Draws the tasks of the panel.

        Args:
            split: The complete split; None makes the environment to get its split.

        Raises:
            ValueError: If the data differ from the data of the original panel.
        """
        if split is None:
            from trca.envs.registration import make

            env = make(self.environment, **self.env_config, split=self.split)
            split = env.get_wrapper_attr("panel")
            env.close()
        assert split is not None
        count = len(split.task_ids)
        if self.tasks is not None and self.tasks > count:
            raise ValueError(f"panel {self.name} needs {self.tasks} tasks, the data have {count}")
        size = self.tasks or count
        drawn = split.batch(0, size, seed=0) if self.shuffled else split.task_ids[:size]
        panel = Panel(split.environment, split.split, drawn)
        if self.hash and panel.hash != self.hash:
            raise ValueError(
                f"panel {self.name} has the hash {self.hash}, these tasks have {panel.hash}:"
                " use the data of the original panel"
            )
        return panel


@cache
def canonical_panels() -> dict[str, CanonicalPanel]:
    """All canonical panels by name."""
    text = resources.files(__package__).joinpath("panels.yaml").read_text("utf-8")
    return {name: CanonicalPanel(name, **about) for name, about in strict_yaml.parse(text).items()}


def canonical_panel(name: str) -> CanonicalPanel:
    """The canonical panel of this name.

    Raises:
        ValueError: For an unknown name. The message gives the nearest name.
    """
    panels = canonical_panels()
    if name not in panels:
        raise ValueError(f"no panel {name!r}: {nearest(name, panels)}")
    return panels[name]
