"""Nodes of the cluster that go and come while a run trains on them."""

import numpy as np
import pytest
import ray
from ray._private.internal_api import node_stats
from ray.cluster_utils import Cluster
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from tests.algorithms.test_training import tokens_of, wait_until_alive


@pytest.fixture
def nodes(cluster):
    """The cluster of the tests, which nodes can join."""
    nodes = Cluster(shutdown_at_exit=False)
    nodes.head_node = ray._private.worker._global_node
    nodes.redis_address = nodes.head_node.redis_address
    yield nodes
    for node in list(nodes.worker_nodes):
        nodes.remove_node(node, allow_graceful=False)


@ray.remote(num_cpus=0)
class Hoard:
    """Puts arrays into its node's object store and goes on using them: they cannot be moved out."""

    def fill(self, mib):
        self.kept = [ray.get(ray.put(np.zeros(2**17))) for _ in range(mib)]


STORE_MIB = 80


def join(nodes):
    return nodes.add_node(num_cpus=1, resources={"place": 1}, object_store_memory=STORE_MIB * 2**20)


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
    alone = make_config().build_algo()
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
        alone.train()
        assert result["missing_rollouts"] == 0
        assert tokens_of(algorithm.rollouts) == tokens_of(alone.rollouts)
        lost = [(i.kind, i.action) for i in algorithm.incidents]
        assert lost == ([("env runner", "retried")] if change == "goes" else [])
        healthy.append(result["fault_tolerance"]["num_healthy_workers"])
    assert healthy == [2, 1, 1, 2, 2]
    ray.kill(hoard)
    algorithm.stop()
    alone.stop()
