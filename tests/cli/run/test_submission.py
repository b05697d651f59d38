"""The files that `trca submit` writes, against the rules of the tools that read them."""

import argparse
import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from trca.algorithms.settings.parameters import TextParameters
from trca.cli.run.submission import Cluster, data_commands, dns_label, render
from trca.tune_configs.files import read, shipped

DNS_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
LONGEST_RAYJOB = 47  # KubeRay: 63 - len("-serve-svc") - 6 characters of the cluster's suffix
NAMES = st.text("abzAZ019._+=-", min_size=1, max_size=90).filter(lambda name: name.strip("."))

CLUSTER = Cluster(
    nodes=2, cpus=16, gpus=2, memory=64, image="me/trca:1", accelerator="A100-80GB", hours=24
)
ONE = Cluster(nodes=1, cpus=2, gpus=0, memory=8, image="i", accelerator="", hours=1)
COMMAND = ["python", "-m", "trca", "train", "config.yaml", "--name", "a run"]


@given(NAMES)
@example("alfworld_qwen2.5_1.5b")
@example("1.5b")
@example("...-")
def test_a_name_in_kubernetes_is_a_dns_1035_label_that_kuberay_takes(name):
    label = dns_label(name)
    assert DNS_1035.fullmatch(label)
    assert len(label) <= LONGEST_RAYJOB


def test_long_names_with_the_same_beginning_have_different_labels():
    first, second = (dns_label("a" * 60 + end) for end in "12")
    assert first != second
    assert first[:40] == second[:40]


@pytest.mark.parametrize("name", sorted(shipped()))
def test_the_labels_of_presets_are_valid(name):
    assert DNS_1035.fullmatch(dns_label(Path(name).name))


def test_a_plain_name_is_its_label():
    assert dns_label("My_run") == "my-run"


@pytest.fixture
def job(tmp_path):
    """The folder of a job with a user's file of awkward lines; renders a template into it."""
    (tmp_path / "files").mkdir()
    (tmp_path / "config.yaml").write_text("algorithm: TRCA\nenv_config: {}\n")
    (tmp_path / "files" / "mine.py").write_text("  # indented\n\n'''\"{{ x }} $HOME: é\t#'''\n\n")

    def rendered(file_name, cluster=CLUSTER, name="alfworld_qwen2.5_1.5b", data=()):
        render(file_name, name, cluster, tmp_path, COMMAND, data)
        return (tmp_path / file_name).read_text()

    rendered.folder = tmp_path
    return rendered


def rayjob(text):
    """The ConfigMap and the RayJob of a file; refuses what KubeRay's schema does not have."""
    settings, job = yaml.safe_load_all(text)
    assert (settings["apiVersion"], settings["kind"]) == ("v1", "ConfigMap")
    assert (job["apiVersion"], job["kind"]) == ("ray.io/v1", "RayJob")
    assert settings["metadata"]["name"] == job["metadata"]["name"]
    assert DNS_1035.fullmatch(job["metadata"]["name"])
    spec = job["spec"]
    types = {
        "entrypoint": str,
        "shutdownAfterJobFinishes": bool,
        "ttlSecondsAfterFinished": int,
        "activeDeadlineSeconds": int,
        "backoffLimit": int,
        "rayClusterSpec": dict,
    }
    assert {key: type(value) for key, value in spec.items()} == types
    cluster = spec["rayClusterSpec"]
    assert cluster.keys() <= {"rayVersion", "headGroupSpec", "workerGroupSpecs"}
    pods = [cluster["headGroupSpec"]["template"]["spec"]]
    for group in cluster.get("workerGroupSpecs", ()):
        numbers = {"replicas", "minReplicas", "maxReplicas"}
        assert group.keys() == {"groupName", "rayStartParams", "template", *numbers}
        assert {type(group[key]) for key in numbers} == {int}
        pods.append(group["template"]["spec"])
    for pod in pods:
        assert pod.keys() <= {"serviceAccountName", "initContainers", "containers", "volumes"}
        volumes = {volume["name"] for volume in pod["volumes"]}
        for container in (*pod["containers"], *pod.get("initContainers", ())):
            assert {mount["name"] for mount in container["volumeMounts"]} == volumes
        for container in pod["containers"]:
            limits = container["resources"]["limits"]
            assert {type(amount) for amount in limits.values()} == {str}
    return settings, spec, pods


def test_files_of_two_folders_keep_their_places(job):
    (job.folder / "files" / "2").mkdir()
    (job.folder / "files" / "2" / "mine.py").write_text("other")
    settings, _, pods = rayjob(job("rayjob.yaml"))
    assert settings["data"]["2__mine.py"] == "other"
    for pod in pods:
        (volume,) = (each["configMap"] for each in pod["volumes"] if "configMap" in each)
        assert {"key": "2__mine.py", "path": "files/2/mine.py"} in volume["items"]


def test_kuberay_gets_the_files_unchanged_and_a_valid_job(job):
    settings, spec, pods = rayjob(job("rayjob.yaml"))
    assert settings["data"] == {
        "config.yaml": (job.folder / "config.yaml").read_text(),
        "mine.py": (job.folder / "files/mine.py").read_text(),
    }
    assert shlex.split(spec["entrypoint"])[4:] == ["/job/config.yaml", "--name", "a run"]
    assert spec["activeDeadlineSeconds"] == 24 * 3600
    assert len(pods) == 2
    items = pods[1]["volumes"][0]["configMap"]["items"]
    assert items[1] == {"key": "mine.py", "path": "files/mine.py"}


def test_pods_have_shared_memory_secrets_and_a_model_cache(job):
    for pod in rayjob(job("rayjob.yaml"))[2]:
        container = pod["containers"][0]
        mounts = {m["mountPath"]: m["name"] for m in container["volumeMounts"]}
        volumes = {v["name"]: v for v in pod["volumes"]}
        assert volumes[mounts["/dev/shm"]]["emptyDir"] == {"medium": "Memory", "sizeLimit": "19Gi"}
        assert "emptyDir" in volumes[mounts["/cache"]]
        assert container["envFrom"] == [{"secretRef": {"name": "trca-secrets", "optional": True}}]
        variables = {each["name"]: each["value"] for each in container["env"]}
        assert variables["HF_HOME"] == "/cache/huggingface"
        assert container["resources"]["limits"] == {
            "cpu": "16",
            "memory": "64Gi",
            "nvidia.com/gpu": "2",
        }
    assert "# serviceAccountName:" in job("rayjob.yaml")
    assert "# persistentVolumeClaim:" in job("rayjob.yaml")


def test_one_node_without_gpus_has_no_workers_and_asks_for_no_gpu(job):
    _, spec, (pod,) = rayjob(job("rayjob.yaml", ONE))
    assert "workerGroupSpecs" not in spec["rayClusterSpec"]
    assert pod["containers"][0]["resources"]["limits"] == {"cpu": "2", "memory": "8Gi"}
    assert "gpus" not in job("job.sbatch", ONE).split("set -euo")[0]
    assert "accelerators" not in yaml.safe_load(job("sky.yaml", ONE))["resources"]


def sbatch_options(text):
    """The options of a batch script as sbatch reads them: up to the first command."""
    parser = argparse.ArgumentParser(exit_on_error=False, allow_abbrev=False)
    for name in ("nodes", "ntasks-per-node", "cpus-per-task", "gpus-per-node"):
        parser.add_argument(f"--{name}", type=int)
    parser.add_argument("--job-name")
    parser.add_argument("--output")
    parser.add_argument("--mem", type=re.compile(r"\d+[KMGT]?").fullmatch)
    parser.add_argument("--time", type=re.compile(r"(\d+-)?\d+:\d\d:\d\d").fullmatch)
    parser.add_argument("--requeue", action="store_true")
    lines = text.splitlines()
    assert lines[0].startswith("#!")
    first = next(k for k, line in enumerate(lines) if line and not line.startswith("#"))
    assert not [line for line in lines[first:] if line.startswith("#SBATCH")]
    options = [shlex.split(line)[1:] for line in lines[:first] if line.startswith("#SBATCH")]
    return parser.parse_args([part for option in options for part in option])


def test_slurm_gets_valid_options_before_the_first_command(job):
    options = sbatch_options(job("job.sbatch"))
    assert (options.nodes, options.cpus_per_task, options.gpus_per_node) == (2, 16, 2)
    assert options.mem
    assert options.time
    assert options.requeue
    assert subprocess.run(["bash", "-n", job.folder / "job.sbatch"]).returncode == 0


TOOLS = {
    "srun": 'echo "srun $*" >> srun.log\nwhile [[ $1 == -* ]]; do [[ $1 == -w ]] && shift; shift; '
    'done\nexec "$@"',
    "scontrol": "echo one; echo two",
    "ray": "exec sleep 60",
    "python": "[[ $2 == *secrets* ]] && echo token || echo 1",
}
"""Commands of a Slurm cluster whose second node does not join; Slurm does not run here."""


def test_a_slurm_job_ends_when_a_node_does_not_join(job, monkeypatch):
    folder = job.folder
    script = job("job.sbatch")
    assert "join_seconds=600" in script
    (folder / "job.sbatch").write_text(script.replace("join_seconds=600", "join_seconds=1"))
    (folder / "bin").mkdir()
    for name, body in TOOLS.items():
        (folder / "bin" / name).write_text(f"#!/usr/bin/env bash\n{body}\n")
        (folder / "bin" / name).chmod(0o755)
    variables = {
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        "SLURM_SUBMIT_DIR": str(folder),
        "SLURM_JOB_ID": "7",
        "SLURM_JOB_NODELIST": "node[1-2]",
    }
    ended = subprocess.run(
        ["bash", "job.sbatch"],
        cwd=folder,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.returncode == 1
    assert "only 1 of 2 nodes (one two) joined Ray" in ended.stderr
    assert "see /tmp/ray-7 on each node" in ended.stderr
    calls = (folder / "srun.log").read_text().splitlines()
    assert len(calls) == 3
    assert all("--cpus-per-task=16" in call for call in calls)


def test_skypilot_gets_a_valid_task(job):
    task = yaml.safe_load(job("sky.yaml"))
    assert task.keys() == {"name", "workdir", "num_nodes", "resources", "setup", "run"}
    assert DNS_1035.fullmatch(task["name"])
    assert task["num_nodes"] == 2
    assert task["resources"] == {"cpus": "16+", "memory": "64+", "accelerators": "A100-80GB:2"}
    assert "bash run.sh" in task["run"]


def data_of(name, **changes):
    settings = TextParameters.resolve({**read(name), **changes}, name, need_data=False)
    return data_commands([settings])


def test_runs_on_official_games_or_smollm2_fetch_their_data():
    for preset in (name for name in shipped() if name.startswith("paper/alfworld")):
        assert data_of(preset) == ["python -m trca data alfworld"]
    assert data_of("quickstart") == data_of("webshop") == []
    assert data_of("quickstart", model="smollm2", env_config={"games": "official"}) == [
        "python -m trca data alfworld",
        "python -m trca data smollm2",
    ]


def test_each_machine_fetches_the_data_before_the_run(job):
    data = ["python -m trca data alfworld", "python -m trca data smollm2"]
    _, _, pods = rayjob(job("rayjob.yaml", data=data))
    assert len(pods) == 2
    for pod in pods:
        (fetching,), (ray,) = pod["initContainers"], pod["containers"]
        assert fetching["command"] == ["bash", "-c", " && ".join(data)]
        for key in ("image", "env", "envFrom", "volumeMounts"):  # the same cache and tokens
            assert fetching[key] == ray[key]
    setup = yaml.safe_load(job("sky.yaml", data=data))["setup"].splitlines()
    assert setup == ["pip install -r requirements.txt", *data]
    for pod in rayjob(job("rayjob.yaml"))[2]:
        assert "initContainers" not in pod
