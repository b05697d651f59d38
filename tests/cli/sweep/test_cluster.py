"""A sweep on a cluster of two nodes that loses its driver, and one of the nodes."""

import json
import signal
import time

import psutil
import pytest
import yaml
from ray._private.ray_constants import PROCESS_TYPE_RAYLET
from ray.cluster_utils import Cluster

from tests.cli.sweep.conftest import COMMAND, EASY, EASY_RUN, environment, started, succeed
from trca.cli.run.training import start_ray
from trca.runs.folder import RunFolder

SWEEP = {
    "base": {
        **EASY_RUN,
        "env": "slow.py:Easy",
        "iterations": 8,
        "num_env_runners": 0,
        "num_learners": 0,
    },
    "grid": {"env_config.ease": [0.2, 0.8]},
    "seeds": [0],
    "side_by_side": 2,
}
SLOW = "import time\n" + EASY.replace("return Outcome", "time.sleep(0.05); return Outcome")


@pytest.fixture(scope="module")
def cluster_of_two():
    """A cluster of two nodes with one CPU each; the last test takes the second node away."""
    head = {"num_cpus": 1, "include_dashboard": False}
    cluster = start_ray(lambda: Cluster(initialize_head=True, head_node_args=head), print)
    other = start_ray(lambda: cluster.add_node(num_cpus=1), print)
    cluster.wait_for_nodes(timeout=600)
    yield cluster, other
    cluster.shutdown()


def raylet(node):
    """The process id of a node's raylet, the parent of its trials."""
    return node.all_processes[PROCESS_TYPE_RAYLET][0].process.pid


def parent(run):
    """The process id of the raylet of a trial; `None` after the end of the trial."""
    try:
        return psutil.Process(run.status()["pid"]).ppid()
    except (psutil.NoSuchProcess, KeyError):
        return None


def trials(folder):
    paths = sorted((folder / "trials").glob("*/status.json"))
    return [RunFolder(path.parent) for path in paths]


def wait(condition, process=None):
    """Waits until the condition has a value, and returns the value."""
    while not (value := condition()):
        assert process is None or process.poll() is None, process.communicate()[0]
        time.sleep(0.05)
    return value


def on(cluster):
    """The environment of a command on the cluster."""
    return environment(RAY_ADDRESS=cluster.address)


def here():
    """The environment of a command without a cluster."""
    return {k: v for k, v in environment().items() if k != "RAY_ADDRESS"}


@pytest.mark.slow
def test_a_trial_that_no_node_can_hold_is_named_until_ctrl_c(cluster_of_two, tmp_path, monkeypatch):
    cluster, _ = cluster_of_two
    monkeypatch.chdir(tmp_path)
    (tmp_path / "slow.py").write_text(SLOW)
    wide = {**SWEEP, "base": {**SWEEP["base"], "num_env_runners": 5}}
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(wide))
    soon = {"TUNE_WARN_INSUFFICENT_RESOURCE_THRESHOLD_S": "1"}
    process = started([*COMMAND, "mine.yaml"], on(cluster) | soon)
    lines = [process.stdout.readline(), process.stdout.readline()]
    assert "2 trials, 2 side by side" in lines[0], lines
    assert "waiting: " in lines[1], lines
    assert (
        "You asked for 6.0 CPUs and 0 GPUs per trial, but the cluster only has 2.0 CPUs" in lines[1]
    )
    process.send_signal(signal.SIGINT)
    assert "0 of 2 trials are done" in process.communicate()[0]
    assert process.returncode == 130


@pytest.mark.slow
def test_a_killed_driver_loses_no_trial_on_a_cluster_that_stays_up(
    cluster_of_two, tmp_path, monkeypatch
):
    cluster, _ = cluster_of_two
    monkeypatch.chdir(tmp_path)
    (tmp_path / "slow.py").write_text(EASY)
    quick = {"iterations": 2, "tasks_per_iteration": 2}
    (tmp_path / "mine.yaml").write_text(
        yaml.safe_dump({**SWEEP, "base": {**SWEEP["base"], **quick}, "seeds": [0, 1]})
    )
    # Tune writes its state only at the start: the later trials are not in the state.
    variables = on(cluster) | {"TUNE_GLOBAL_CHECKPOINT_S": "600"}
    process = started([*COMMAND, "mine.yaml", "--name=killed"], variables)
    folder = tmp_path / "outputs" / "killed"

    def ended():
        runs = [run for run in trials(folder) if run.status()["state"] == "finished"]
        return {run.name: run.metrics() for run in runs}

    wait(lambda: any(name.startswith("003") for name in ended()), process)
    process.send_signal(signal.SIGKILL)
    process.wait()
    wait(lambda: not any(parent(run) for run in trials(folder)))  # the fourth may end meanwhile
    kept = ended()

    output = succeed([*COMMAND, "--resume=killed"], variables)
    assert f"{4 - len(kept)} of 4 trials" in output
    assert [run.name[:3] for run in trials(folder)] == ["001", "002", "003", "004"]
    assert kept.items() <= ended().items()
    rows = json.loads((folder / "sweep.json").read_text())
    assert [(row["n"], row["failed"]) for row in rows] == [(2, 0), (2, 0)]


@pytest.mark.slow
def test_a_sweep_survives_a_lost_node_and_a_killed_driver(cluster_of_two, tmp_path, monkeypatch):
    cluster, other = cluster_of_two
    monkeypatch.chdir(tmp_path)
    (tmp_path / "slow.py").write_text(SLOW)
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(SWEEP))
    process = started([*COMMAND, "mine.yaml", "--name=lossy"], on(cluster))
    folder = tmp_path / "outputs" / "lossy"
    head, second = raylet(cluster.head_node), raylet(other)

    def on_both_nodes():
        running = [run for run in trials(folder) if run.has_checkpoint()]
        nodes = {parent(run): run for run in running}
        return nodes if {head, second} <= nodes.keys() else None

    lost = wait(on_both_nodes, process)[second]
    cluster.remove_node(other, allow_graceful=False)
    assert lost.status()["state"] == "running"
    wait(lambda: parent(lost) == head, process)  # the trial continues on the node that is left
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (folder / "sweep.md").exists()

    succeed([*COMMAND, "--resume=lossy"], on(cluster))
    (tmp_path / "slow.py").write_text(EASY)
    succeed([*COMMAND, "mine.yaml", "--name=whole"], here())
    tables = [(tmp_path / "outputs" / name / "sweep.md").read_text() for name in ("lossy", "whole")]
    assert tables[0] == tables[1]
    rows = json.loads((folder / "sweep.json").read_text())
    assert [row["n"] for row in rows] == [1, 1]
    incidents = [json.loads(line) for line in lost.failures.read_text().splitlines()]
    assert {incident["kind"] for incident in incidents} == {"driver"}
