"""Compares the resources that an algorithm requests with those that Ray has.

Ray waits without end for a process that asks for more than exists. A Ray that this process has
started has one machine and stays as it is. Any other cluster may grow, by an autoscaler or by a
node that joins later.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING, Any

import ray
from ray._private import worker as ray_worker
from ray.rllib.algorithms.utils import _get_env_runner_bundles, _get_learner_bundles
from ray.util import get_current_placement_group

if TYPE_CHECKING:
    from trca.algorithms.base.text_config import TextAlgorithmConfig

logger = logging.getLogger(__name__)


def check_supply(config: TextAlgorithmConfig) -> None:
    """Checks that Ray has the CPUs, GPUs and custom resources of all processes.

    A trial of Ray Tune has its resources already. A Ray that this process has started raises a
    `ValueError`; on any other cluster a lack is only logged.
    """
    evaluation: Any = config.get_evaluation_config_object()
    need = Counter[str]()
    for bundle in (
        *_get_env_runner_bundles(config),
        *_get_env_runner_bundles(evaluation),
        *_get_learner_bundles(config),
    ):
        need.update(bundle)
    if not need or get_current_placement_group() is not None:
        return
    supply = ray.cluster_resources()
    lack = {name: count for name, count in need.items() if count > supply.get(name, 0)}
    if not lack:
        return
    wanted = " and ".join(f"{count:g} {name}" for name, count in lack.items())
    there = " and ".join(f"{supply.get(name, 0):g} {name}" for name in lack)
    message = (
        f"the processes need {wanted}, and Ray has {there}: num_env_runners is"
        f" {config.num_env_runners}, evaluation_num_env_runners {evaluation.num_env_runners},"
        f" num_learners {config.num_learners}"
    )
    node: Any = ray_worker._global_node
    if node is None or not node.is_head():
        logger.warning("%s. Ray waits until the cluster has grown", message)
        return
    raise ValueError(
        f"{message}. Set num_env_runners and num_learners to 0 or a smaller number (for a"
        " checkpoint: Algorithm.from_checkpoint(path, config=config)), or start Ray with more, such"
        f" as ray.init(num_cpus={need['CPU']:g})"
    )
