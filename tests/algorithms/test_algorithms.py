"""Every algorithm builds and trains; its config and its class travel to other processes."""

import dis
import io

import numpy as np
import pytest
from ray import cloudpickle
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.tune.registry import get_trainable_cls

from trca.algorithms import ALGORITHMS
from trca.records import advantages_of

GOLD = {"IGPO", "StepSearch"}
"""Algorithms that read the hidden truth of their training tasks."""
pytestmark = pytest.mark.usefixtures("cluster")


@pytest.mark.parametrize("name", ALGORITHMS)
def test_it_trains_an_iteration(build, make_config, name):
    settings = {"tasks_per_iteration": 2, "group_size": 2, "gold_in_training": name in GOLD}
    config = make_config(ALGORITHMS[name].config_class, {"passages": name in GOLD}, **settings)
    algorithm = build(cloudpickle.loads(cloudpickle.dumps(config)))
    assert type(algorithm) is get_trainable_cls(name) is ALGORITHMS[name]
    before = algorithm.learner_group.get_weights()[DEFAULT_MODULE_ID]
    result = algorithm.train()
    after = algorithm.learner_group.get_weights()[DEFAULT_MODULE_ID]
    assert result["missing_rollouts"] == result["skipped_updates"] == 0
    assert np.isfinite(advantages_of(algorithm.rollouts)).all()
    assert any(not np.array_equal(before[n], after[n]) for n in before)


@pytest.mark.parametrize("algorithm", ALGORITHMS.values())
def test_ray_can_export_every_algorithm(algorithm):
    """Ray disassembles a class to export it, attributes that are classes too: none leads back."""
    dis.dis(algorithm, file=io.StringIO(), depth=2)
