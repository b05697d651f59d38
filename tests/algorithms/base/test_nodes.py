"""Nodes of the cluster that go and come while a run trains on them."""

import numpy as np
import pytest
import ray
from ray._private.internal_api import node_stats
from ray.cluster_utils import Cluster
from ray.util.placement_group import placement_group
from ray.util.scheduling_strategies import (
    NodeAffinitySchedulingStrategy,
    PlacementGroupSchedulingStrategy,
)

from tests.algorithms.base.test_training import tokens_of, wait_until_alive
from trca.algorithms import TRCA, TRCAConfig
from trca.cli.run.training import start_ray


@pytest.fixture
def nodes(cluster):
    """The cluster of the tests, which nodes can join."""
    nodes = Cluster(shutdown_at_exit=False)
    nodes.head_node = ray._private.worker._global_node
    nodes.redis_address = nodes.head_node.redis_address
    yield nodes
    for node in list(nodes.worker_nodes):
        nodes.remove_node(node)  # a killed node gets actors of the next test for 14 seconds


@ray.remote(num_cpus=0)
class Hoard:
    """Puts arrays into its node's object store and keeps using them: they cannot be moved out."""

    def fill(self, mib):
        self.kept = [ray.get(ray.put(np.zeros(2**17))) for _ in range(mib)]


STORE_MIB = 80


def join(nodes, **resources):
    resources = resources or {"num_cpus": 1, "resources": {"place": 1}}
    store = {"object_store_memory": STORE_MIB * 2**20}
    return start_ray(lambda: nodes.add_node(**resources, **store), print)


def fill_store(node):
    """Fills the object store of a node; returns the actor that holds it."""
    there = NodeAffinitySchedulingStrategy(node.node_id, soft=False)
    hoard = Hoard.options(scheduling_strategy=there).remote()
    ray.get(hoard.fill.remote(STORE_MIB + 10))
    stats = node_stats(node.node_ip_address, node.node_manager_port).store_stats
    assert stats.object_store_bytes_used > 0.95 * stats.object_store_bytes_avail
    return hoard


@pytest.mark.slow
def test_a_node_that_goes_one_that_comes_and_a_full_object_store_cost_no_rollout(
    nodes, make_config
):
    """Each node has a place for one runner."""
    local = make_config().build_algo()
    node = join(nodes)
    config = make_config(num_env_runners=2)
    config.env_runners(custom_resources_per_env_runner={"place": 1})
    algorithm = config.build_algo()
    manager = algorithm.env_runner_group._worker_manager
    healthy = []
    for change in ("none", "goes", "none", "comes", "store is full"):
        if change == "goes":
            nodes.remove_node(node, allow_graceful=False)
        if change == "comes":
            (gone,) = set(manager.actor_ids()) - set(manager.healthy_actor_ids())
            node = join(nodes)
            wait_until_alive(manager.actors()[gone])
        if change == "store is full":
            hoard = fill_store(node)
        result = algorithm.train()
        local.train()
        assert result["missing_rollouts"] == 0
        assert tokens_of(algorithm.rollouts) == tokens_of(local.rollouts)
        lost = [(i.kind, i.action) for i in algorithm.incidents]
        # Ray may notice that the node has gone before its runner is asked: then nothing is lost.
        assert lost == [] or (change, lost) == ("goes", [("env runner", "retried")])
        healthy.append(result["fault_tolerance"]["num_healthy_workers"])
    assert healthy == [2, 1, 1, 2, 2]
    ray.kill(hoard)
    algorithm.stop()
    local.stop()


@pytest.mark.slow
def test_sharded_learners_on_two_nodes_need_a_folder_that_both_see(nodes, make_config, tmp_path):
    for _ in range(2):
        join(nodes)
    config = make_config(sharding="fsdp")
    config.learners(num_learners=2, custom_resources_per_learner={"place": 1})
    config.reporting(run_folder=f"file://{tmp_path}/runs/shards")
    with pytest.raises(ValueError, match=r"2 nodes: .*Name a folder that all nodes see"):
        config.build_algo()
    algorithm = config.copy(copy_frozen=False).reporting(run_folder=tmp_path / "seen").build_algo()
    algorithm.train()
    algorithm.stop()


@ray.remote(num_cpus=0)
class Holder:
    """Holds a share of a GPU."""

    def gpus(self):
        return ray.get_gpu_ids()


@pytest.mark.slow
@pytest.mark.parametrize("grouped", [True, False], ids=["in Tune", "alone"])
def test_a_learner_and_an_env_runner_of_a_preset_share_each_gpu(nodes, grouped):
    """Ray counts GPUs and does not look at them, so a machine without any will do."""
    node = join(nodes, num_cpus=64, num_gpus=4)
    config = TRCAConfig.from_preset("paper/alfworld_qwen2.5_1.5b")
    config.training(model="shrunk:Qwen/Qwen2.5-1.5B-Instruct", engine="transformers")
    bundles = TRCA.default_resource_request(config).bundles
    group = placement_group(bundles, strategy="PACK")
    assert group.wait(600)
    if not grouped:
        ray.util.remove_placement_group(group)
    holders, gpus = [], []
    for number, bundle in enumerate(bundles):  # in sequence, as RLlib waits for its runners
        if share := bundle.get("GPU", 0):
            inside = PlacementGroupSchedulingStrategy(group, number)
            there = inside if grouped else NodeAffinitySchedulingStrategy(node.node_id, soft=False)
            holder = Holder.options(num_gpus=share, scheduling_strategy=there).remote()
            gpus += ray.get(holder.gpus.remote(), timeout=600)
            holders.append(holder)
    assert [sorted(gpus[:4]), sorted(gpus[4:])] == [[0, 1, 2, 3]] * 2
    for holder in holders:
        ray.kill(holder)
    ray.util.remove_placement_group(group)
