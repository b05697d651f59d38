"""Compares the start weights of learners with the start weights that a checkpoint names."""

from __future__ import annotations

from typing import Any

from ray.rllib.core import COMPONENT_LEARNER_GROUP

from trca.algorithms.learner.group import TextLearnerGroup
from trca.algorithms.learner.start_weights import read_start_weights


def refuse_other_start(
    learners: TextLearnerGroup, path: Any, component: str | None, filesystem: Any
) -> None:
    """Refuses a checkpoint of a run with other frozen weights.

    Args:
        learners: The learners.
        path: The checkpoint, or a component in the checkpoint.
        component: Name of the component; None for the complete checkpoint.
        filesystem: Arrow's file system of the path; None derives it from the path.

    Raises:
        OtherStartError: If a policy has frozen weights that differ from the checkpoint's.
    """
    if component and not component.startswith(COMPONENT_LEARNER_GROUP):
        return
    checkpoint = str(path).removesuffix(f"/{component}")
    saved = read_start_weights(checkpoint, filesystem)
    fix = "set model: FOLDER in the config, for a run in its config.yaml"
    for of_learner in learners.ask("start_weights"):
        for module, start in of_learner.items():
            if module in saved:
                start.refuse_other(saved[module], module, checkpoint, fix)
