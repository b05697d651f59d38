"""Processes that ask for more than Ray has."""

import pytest
import ray
from ray.rllib.algorithms.algorithm import Algorithm

from trca.algorithms.base.supply import check_supply


@pytest.mark.parametrize(
    ("method", "processes", "need"),
    [
        ("env_runners", {"num_env_runners": 7}, "7 CPU, and Ray has 6 CPU"),
        ("env_runners", {"num_env_runners": 1, "num_cpus_per_env_runner": 8}, "8 CPU, .* 6 CPU"),
        ("env_runners", {"num_env_runners": 1, "num_gpus_per_env_runner": 1}, "1 GPU, .* 0 GPU"),
        ("learners", {"num_learners": 7}, "7 CPU, .* num_learners 7"),
        ("evaluation", {"evaluation_num_env_runners": 7}, "evaluation_num_env_runners 7"),
        (
            "env_runners",
            {"num_env_runners": 1, "custom_resources_per_env_runner": {"place": 2}},
            "2 place, and Ray has 1 place",
        ),
    ],
)
def test_more_than_exists_is_refused_at_once(make_config, cluster, method, processes, need):
    config = make_config()
    getattr(config, method)(**processes)
    with pytest.raises(ValueError, match=need) as refusal:
        check_supply(config)
    for setting in ("num_env_runners", "num_learners", "ray.init(num_cpus="):
        assert setting in str(refusal.value)


@pytest.mark.slow
def test_a_cluster_that_may_grow_is_waited_for(make_config, cluster):
    config = make_config().env_runners(num_env_runners=7)

    @ray.remote
    def in_another_process() -> None:
        check_supply(config)

    ray.get(in_another_process.remote())


def test_a_checkpoint_loads_with_fewer_processes(make_config, cluster, tmp_path):
    algorithm = make_config().env_runners(num_env_runners=1).build_algo()
    algorithm.save_to_path(tmp_path)
    algorithm.stop()
    with pytest.raises(ValueError, match="the processes need 7 CPU"):
        Algorithm.from_checkpoint(tmp_path, config=make_config().env_runners(num_env_runners=7))
    restored = Algorithm.from_checkpoint(tmp_path, config=make_config())
    restored.train()
    assert restored.iteration == 1
    restored.stop()
