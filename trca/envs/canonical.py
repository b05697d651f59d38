"""Canonical panels: the tasks that results of different projects can be compared on, by name.

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
    """A panel by name.

    Attributes:
        name: Its name.
        about: What it is, in a sentence.
        environment: Gymnasium id of its environment.
        env_config: The arguments that choose its tasks.
        split: The split they are of.
        tasks: Their number; None for all of the split.
        shuffled: Whether they are drawn from the whole split (seed 0) in place of its head.
        hash: Hash of the panel; None where it is not known.
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
        """The tasks.

        Args:
            split: The whole split; None makes the environment and asks it.

        Raises:
            ValueError: When the split has other tasks than the panel was made of, since the data
                differ.
        """
        if split is None:
            from trca.envs.registration import make

            env = make(self.environment, **self.env_config, split=self.split)
            split = env.get_wrapper_attr("panel")
            env.close()
        assert split is not None
        count = len(split.task_ids)
        if self.tasks is not None and self.tasks > count:
            raise ValueError(f"panel {self.name} has {self.tasks} tasks and the data {count}")
        wanted = self.tasks or count
        drawn = split.batch(0, wanted, seed=0) if self.shuffled else split.task_ids[:wanted]
        panel = Panel(split.environment, split.split, drawn)
        if self.hash and panel.hash != self.hash:
            raise ValueError(
                f"panel {self.name} has the hash {self.hash} and the tasks found {panel.hash}: the"
                " data are not those it was made of"
            )
        return panel


@cache
def canonical_panels() -> dict[str, CanonicalPanel]:
    """All of them, by name."""
    text = resources.files(__package__).joinpath("panels.yaml").read_text("utf-8")
    return {name: CanonicalPanel(name, **about) for name, about in strict_yaml.parse(text).items()}


def canonical_panel(name: str) -> CanonicalPanel:
    """The panel of a name.

    Raises:
        ValueError: When there is none; names the nearest.
    """
    panels = canonical_panels()
    if name not in panels:
        raise ValueError(f"no panel {name!r}: {nearest(name, panels)}")
    return panels[name]
