"""Nodes of the cluster that go and come while a run trains on them."""

import pytest
import ray
from ray.cluster_utils import Cluster

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


def join(nodes):
    return nodes.add_node(num_cpus=1, resources={"place": 1})


def test_a_node_that_goes_and_one_that_comes_cost_no_rollout(nodes, make_config):
    """Each node has a place for one runner."""
    alone = make_config().build_algo()
    node = join(nodes)
    config = make_config(num_env_runners=2)
    config.env_runners(custom_resources_per_env_runner={"place": 1})
    algorithm = config.build_algo()
    manager = algorithm.env_runner_group._worker_manager
    healthy = []
    for change in ("none", "goes", "none", "comes"):
        if change == "goes":
            nodes.remove_node(node, allow_graceful=False)
        if change == "comes":
            (gone,) = set(manager.actor_ids()) - set(manager.healthy_actor_ids())
            join(nodes)
            wait_until_alive(manager.actors()[gone])
        result = algorithm.train()
        alone.train()
        assert result["missing_rollouts"] == 0
        assert tokens_of(algorithm.rollouts) == tokens_of(alone.rollouts)
        lost = [(i.kind, i.action) for i in algorithm.incidents]
        assert lost == ([("env runner", "retried")] if change == "goes" else [])
        healthy.append(result["fault_tolerance"]["num_healthy_workers"])
    assert healthy == [2, 1, 1, 2]
    algorithm.stop()
    alone.stop()
