"""A sweep on a cluster of two nodes that loses its driver, and one of the nodes."""

import json
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest
import yaml
from ray._private.ray_constants import PROCESS_TYPE_RAYLET
from ray.cluster_utils import Cluster

from tests.cli.sweep.conftest import EASY
from trca.runs.folder import RunFolder

SWEEP = {
    "base": {
        "algorithm": "GRPO",
        "env": "slow.py:Easy",
        "model": "shrunk:Qwen/Qwen2.5-1.5B-Instruct",
        "tracking": [],
        "iterations": 8,
        "evaluation_tasks": 4,
        "tasks_per_iteration": 10,
        "group_size": 2,
        "max_new_tokens": 4,
        "max_prompt_tokens": 512,
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
    cluster = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False}
    )
    other = cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
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


def environment(cluster=None):
    variables = {k: v for k, v in os.environ.items() if k != "RAY_ADDRESS"}
    address = {"RAY_ADDRESS": cluster.address} if cluster else {}
    return {**variables, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1", **address}


@pytest.mark.slow
def test_a_trial_that_no_node_can_hold_is_named_until_ctrl_c(cluster_of_two, tmp_path, monkeypatch):
    cluster, _ = cluster_of_two
    monkeypatch.chdir(tmp_path)
    (tmp_path / "slow.py").write_text(SLOW)
    wide = {**SWEEP, "base": {**SWEEP["base"], "num_env_runners": 5}}
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(wide))
    process = subprocess.Popen(
        [sys.executable, "-m", "trca", "sweep", "mine.yaml"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**environment(cluster), "TUNE_WARN_INSUFFICENT_RESOURCE_THRESHOLD_S": "1"},
    )
    assert process.stdout is not None
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
    variables = {**environment(cluster), "TUNE_GLOBAL_CHECKPOINT_S": "600"}
    command = [sys.executable, "-m", "trca", "sweep"]
    process = subprocess.Popen(
        [*command, "mine.yaml", "--name=killed"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=variables,
    )
    folder = tmp_path / "outputs" / "killed"

    def ended():
        runs = [run for run in trials(folder) if run.status()["state"] == "finished"]
        return {run.name: run.metrics() for run in runs}

    wait(lambda: any(name.startswith("003") for name in ended()), process)
    process.send_signal(signal.SIGKILL)
    process.wait()
    kept = ended()

    resume = [*command, "--resume=killed"]
    done = subprocess.run(resume, capture_output=True, text=True, env=variables)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{4 - len(kept)} of 4 trials" in done.stdout
    assert [run.name[:3] for run in trials(folder)] == ["001", "002", "003", "004"]
    assert kept.items() <= ended().items()
    whole = [*command, "mine.yaml", "--name=whole"]
    done = subprocess.run(whole, capture_output=True, text=True, env=environment())
    assert done.returncode == 0, done.stdout + done.stderr
    assert (folder / "sweep.md").read_text() == (
        tmp_path / "outputs" / "whole" / "sweep.md"
    ).read_text()


@pytest.mark.slow
def test_a_sweep_survives_a_lost_node_and_a_killed_driver(cluster_of_two, tmp_path, monkeypatch):
    cluster, other = cluster_of_two
    monkeypatch.chdir(tmp_path)
    (tmp_path / "slow.py").write_text(SLOW)
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(SWEEP))
    command = [sys.executable, "-m", "trca", "sweep"]
    output = subprocess.PIPE
    process = subprocess.Popen(
        [*command, "mine.yaml", "--name=lossy"],
        stdout=output,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment(cluster),
    )
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

    resume = [*command, "--resume=lossy"]
    done = subprocess.run(resume, capture_output=True, text=True, env=environment(cluster))
    assert done.returncode == 0, done.stdout + done.stderr
    whole = [*command, "mine.yaml", "--name=whole"]
    done = subprocess.run(whole, capture_output=True, text=True, env=environment())
    assert done.returncode == 0, done.stdout + done.stderr
    tables = [(tmp_path / "outputs" / name / "sweep.md").read_text() for name in ("lossy", "whole")]
    assert tables[0] == tables[1]
    rows = json.loads((folder / "sweep.json").read_text())
    assert [row["n"] for row in rows] == [1, 1]
    incidents = [json.loads(line) for line in lost.failures.read_text().splitlines()]
    assert {incident["kind"] for incident in incidents} == {"driver"}
