"""The files of `examples/cluster`, against the rules of the tools that read them."""

import argparse
import os
import re
import shlex
import socket
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml

from tests.cli.commands.test_train import SMALL
from tests.conftest import unused_port
from trca.cli.commands.submit import Target
from trca.runs.folder import RunFolder
from trca.tune_configs.files import shipped

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples/cluster"
FILES = ("slurm.sbatch", "kuberay.yaml", "skypilot.yaml")
TEXTS = {name: (FOLDER / name).read_text() for name in FILES}
SHRUNK = ["--set=model=shrunk:Qwen/Qwen2.5-1.5B-Instruct", "--set=iterations=1"]


def test_each_scheduler_has_a_file_that_starts_a_preset_and_resumes_it():
    assert {Path(name).stem for name in FILES} == set(Target) - {"ray"}
    for text in TEXTS.values():
        (words,) = re.findall(r"trca train .*?--auto-resume", text, re.DOTALL)
        command = shlex.split(words.replace("\\\n", ""))
        assert command[2] in shipped()
        assert {"--name", "--storage-path"} < set(command)


def test_kuberay_gets_a_job_that_its_schema_has():
    job = yaml.safe_load(TEXTS["kuberay.yaml"])
    assert (job["apiVersion"], job["kind"]) == ("ray.io/v1", "RayJob")
    assert re.fullmatch(r"[a-z]([-a-z0-9]{0,45}[a-z0-9])?", job["metadata"]["name"])
    types = {
        "entrypoint": str,
        "shutdownAfterJobFinishes": bool,
        "ttlSecondsAfterFinished": int,
        "activeDeadlineSeconds": int,
        "backoffLimit": int,
        "rayClusterSpec": dict,
    }
    assert {key: type(value) for key, value in job["spec"].items()} == types
    cluster = job["spec"]["rayClusterSpec"]
    assert cluster["rayVersion"] == version("ray")
    assert cluster["authOptions"] == {"mode": "token"}
    (workers,) = cluster["workerGroupSpecs"]
    numbers = {"replicas", "minReplicas", "maxReplicas"}
    assert workers.keys() == {"groupName", "rayStartParams", "template", *numbers}
    for group in (cluster["headGroupSpec"], workers):
        pod = group["template"]["spec"]
        assert pod.keys() <= {"serviceAccountName", "initContainers", "containers", "volumes"}
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        (data,), (ray,) = pod["initContainers"], pod["containers"]
        for key in ("image", "env", "envFrom", "volumeMounts"):  # the same cache and tokens
            assert data[key] == ray[key]
        mounts = {mount["mountPath"]: mount["name"] for mount in ray["volumeMounts"]}
        assert set(mounts.values()) == volumes.keys()
        limits = ray["resources"]["limits"]
        assert {type(amount) for amount in limits.values()} == {str}
        shared = volumes[mounts["/dev/shm"]]["emptyDir"]
        assert shared["medium"] == "Memory"
        store = int(0.3 * int(limits["memory"].removesuffix("Gi")))  # Ray's default share
        assert shared["sizeLimit"] == f"{store}Gi"
        assert {type(each["value"]) for each in ray["env"]} == {str}


def test_skypilot_gets_a_valid_task():
    task = yaml.safe_load(TEXTS["skypilot.yaml"])
    keys = {"name", "workdir", "num_nodes", "resources", "envs", "secrets", "setup", "run"}
    assert task.keys() == keys
    assert (task["envs"], task["secrets"]) == (
        {"RAY_AUTH_MODE": "token"},
        {"RAY_AUTH_TOKEN": None},
    )
    assert task["resources"].keys() == {"cpus", "memory", "accelerators"}
    for script in ("setup", "run"):
        assert subprocess.run(["bash", "-n"], input=task[script], text=True).returncode == 0


def test_slurm_gets_valid_options_before_the_first_command():
    parser = argparse.ArgumentParser(exit_on_error=False, allow_abbrev=False)
    for name in ("nodes", "ntasks-per-node", "cpus-per-task", "gpus-per-node"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--job-name")
    parser.add_argument("--output")
    parser.add_argument("--mem", type=re.compile(r"\d+[KMGT]?").fullmatch)
    parser.add_argument("--time", type=re.compile(r"(\d+-)?\d+:\d\d:\d\d").fullmatch)
    parser.add_argument("--requeue", action="store_true")
    head, _, commands = TEXTS["slurm.sbatch"].partition("set -euo")
    assert head.startswith("#!")
    assert all(line.startswith("#") for line in head.splitlines())
    assert "#SBATCH" not in commands
    lines = [shlex.split(line)[1:] for line in head.splitlines() if line.startswith("#SBATCH")]
    options = parser.parse_args([part for line in lines for part in line])
    assert options.mem
    assert options.time
    assert options.requeue


CLIENT = "import ray, sys; ray.init(sys.argv[1], logging_level='ERROR'); print(len(ray.nodes()))"


@pytest.mark.slow
def test_a_ray_head_with_a_token_takes_clients_with_this_token_alone(tmp_path):
    token, wrong = "a" * 64, "b" * 64
    (tmp_path / "token").write_text(token)
    env = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
    env["HOME"] = str(tmp_path / "home")  # without a token of Ray
    with_token = {**env, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token}

    def client(changes):
        command = [sys.executable, "-c", CLIENT, f"127.0.0.1:{port}"]
        return subprocess.run(
            command, env=env | changes, capture_output=True, text=True, timeout=400
        )

    port = unused_port()
    with tempfile.TemporaryDirectory(prefix="ray", dir="/tmp") as folder:
        ray = Path(sys.executable).with_name("ray")
        options = "--head --block --num-cpus=1 --include-dashboard=false --disable-usage-stats"
        head = subprocess.Popen(
            [ray, "start", *options.split(), f"--port={port}", f"--temp-dir={folder}"],
            env=with_token,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            while head.poll() is None and socket.socket().connect_ex(("127.0.0.1", port)):
                time.sleep(0.2)
            mode = {"RAY_AUTH_MODE": "token"}
            for accepted in (
                {**mode, "RAY_AUTH_TOKEN": token},
                {**mode, "RAY_AUTH_TOKEN_PATH": str(tmp_path / "token")},
            ):
                assert client(accepted).stdout.split() == ["1"]
            for refused in ({}, {**mode, "RAY_AUTH_TOKEN": wrong}):
                ended = client(refused)
                assert ended.returncode != 0
                assert "uthenticat" in ended.stderr
        finally:
            head.terminate()
            head.wait()


SRUN = """#!/usr/bin/env bash
# Slurm's srun on one machine: whatever the node, the command runs here.
echo "srun $*" >> srun.log
while [[ $1 == -* ]]; do [[ $1 == -w ]] && shift; shift; done
exec "$@"
"""


def sbatch(folder, script, tools):
    """Runs a script with commands in place of Slurm's, on a job of two nodes with 4 CPUs each."""
    (folder / "bin").mkdir()
    tools = {"srun": SRUN, "scontrol": "#!/bin/sh\necho one; echo two\n", **tools}
    for name, text in tools.items():
        (folder / "bin" / name).write_text(text)
        (folder / "bin" / name).chmod(0o755)
    return subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env={
            **os.environ,
            "PATH": f"{folder / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "RAY_TMPDIR": "/tmp",
            "SLURM_SUBMIT_DIR": str(folder),
            "SLURM_JOB_ID": str(os.getpid()),
            "SLURM_JOB_NODELIST": "node[1-2]",
            "SLURM_CPUS_PER_TASK": "4",
        },
        capture_output=True,
        text=True,
        timeout=800,
    )


def test_a_slurm_job_ends_when_a_node_does_not_join(tmp_path):
    assert "join_seconds=600" in TEXTS["slurm.sbatch"]
    script = TEXTS["slurm.sbatch"].replace("join_seconds=600", "join_seconds=1")
    python = "#!/usr/bin/env bash\n[[ $2 == *secrets* ]] && echo token || echo 1\n"
    ended = sbatch(tmp_path, script, {"ray": "#!/bin/sh\nexec sleep 60\n", "python": python})
    assert ended.returncode == 1
    assert "only 1 of 2 nodes (one two) joined Ray" in ended.stderr
    assert f"see /tmp/ray-{os.getpid()} on each node" in ended.stderr
    calls = (tmp_path / "srun.log").read_text().splitlines()
    assert len(calls) == 3
    assert all("--cpus-per-task=4" in call for call in calls)


@pytest.mark.slow
def test_the_slurm_script_starts_ray_on_two_nodes_and_the_run_on_the_first(tmp_path):
    settings = shlex.join([part for part in SMALL if part.startswith("--set")] + SHRUNK)
    preset = "trca train paper/alfworld_qwen2.5_1.5b"
    assert preset in TEXTS["slurm.sbatch"]
    script = TEXTS["slurm.sbatch"].replace(preset, f"python -m trca train quickstart {settings}")
    ended = sbatch(tmp_path, script, {})
    assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-3000:]
    run = RunFolder.open(tmp_path / "runs/alfworld")
    assert run.read_json("status.json")["state"] == "finished"
    assert ended.stdout.count("Ray runtime started") == 2
