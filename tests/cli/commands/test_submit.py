import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from tests.cli.commands.test_train import SMALL
from trca.cli import app
from trca.cli.run.submission import requirements
from trca.runs.folder import RunFolder

GIVEN = [part for part in SMALL if part.startswith("--set")]
SETTINGS = [*GIVEN, "--set=model=shrunk:Qwen/Qwen2.5-1.5B-Instruct", "--set=iterations=1"]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def submit(*arguments):
    return CliRunner().invoke(app, ["submit", "quickstart", *arguments])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--to=ray"], "--storage-path is missing: name what every node reaches"),
        (["--to=ray", "--storage-path=outputs"], "--storage-path is outputs: name what"),
        (
            ["--to=skypilot", "--storage-path=/mnt/runs"],
            "the machines that SkyPilot rents share",
        ),
        (["--to=kuberay", "--storage-path=s3://b/r"], "name one that has trca with --image"),
        (["--to=slurm", "--set=num_gpus_per_learner=1", "--gpus=1"], "asks for 2 GPUs and"),
        (["--to=slurm", "--set=lr=-1"], "lr"),
    ],
)
def test_what_a_cluster_could_not_run_is_refused_here(here, arguments, message):
    result = submit(*arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())
    assert not list(here.iterdir())


@pytest.mark.parametrize("to", ["ray", "slurm", "kuberay", "skypilot"])
def test_a_dry_run_prints_the_job_and_writes_nothing(here, to):
    result = submit(f"--to={to}", "--storage-path=s3://b/r", "--image=me/trca", "--dry-run")
    assert result.exit_code == 0, result.output
    assert "--storage-path s3://b/r --auto-resume" in result.output
    assert "env: trca/ALFWorld-v0" in result.output
    assert not list(here.iterdir())


def test_a_sweep_is_one_job_with_the_machines_of_its_trials(here):
    (here / "mine.yaml").write_text(
        "base: quickstart\nsample: {lr: {loguniform: [1e-4, 1e-3]}}\nsamples: 4\nsearch: optuna\n"
        "set: {num_env_runners: 2, num_learners: 1, num_gpus_per_learner: 1}\n"
        "seeds: [0]\nside_by_side: 4\n"
    )
    result = CliRunner().invoke(
        app,
        ["submit", "mine.yaml", "--to=slurm", "--nodes=2", "--name=mine", "--set=iterations=3"],
    )
    assert result.exit_code == 0, result.output
    job = here / "jobs" / "mine"
    script = (job / "job.sbatch").read_text()
    assert "#SBATCH --cpus-per-task=8" in script  # 4 trials of 3 CPUs and a driver, on 2 nodes
    assert "#SBATCH --gpus-per-node=2" in script
    assert (
        "-m trca sweep config.yaml --name mine --storage-path runs --auto-resume"
        in (job / "run.sh").read_text()
    )
    assert "optuna" in (job / "requirements.txt").read_text()
    config = yaml.safe_load((job / "config.yaml").read_text())
    assert (config["set"]["iterations"], config["samples"]) == (3, 4)
    assert config["base"]["env"] == "trca/ALFWorld-v0"


@pytest.mark.parametrize("to", ["kuberay", "skypilot"])
def test_a_job_on_official_games_fetches_the_games(here, to):
    (here / "mine.yaml").write_text(
        "base: quickstart\ngrid: {lambda_: [0.2, 0.8]}\nseeds: [0]\n"
        "panels: [{env_config.games: small}, {env_config.games: official}]\n"
    )
    options = [f"--to={to}", "--storage-path=s3://b/r", "--image=me/trca", "--dry-run"]
    for config in ("paper/alfworld_qwen2.5_1.5b", "mine.yaml"):
        result = CliRunner().invoke(app, ["submit", config, *options])
        assert result.exit_code == 0, result.output
        assert "python -m trca data alfworld" in result.output
    assert "python -m trca data" not in submit(*options).output


def test_a_job_asks_for_the_base_and_for_what_its_run_needs():
    declared = [
        "gymnasium==1.2.2",
        'ray[rllib,tune]==2.60.0; extra == "train"',
        'trca[train]; extra == "vllm"',
        'vllm==0.32.0; extra == "vllm"',
        'peft; extra == "lora"',
    ]
    training = ["gymnasium==1.2.2", "ray[rllib,tune]==2.60.0"]
    assert requirements(declared, ["train"]) == training
    assert requirements(declared, ["train", "vllm"]) == [*training, "vllm==0.32.0"]


def test_kubernetes_mounts_the_settings_where_the_job_reads_them(here):
    (here / "mine.yaml").write_text((Path(__file__).parents[3] / RUBRIC).read_text())
    result = submit(
        *("--to=kuberay", "--storage-path=s3://b/r", "--image=me/trca", "--name=My_run"),
        *("--nodes=2", "--gpus=4", "--set=env_config.library=mine.yaml"),
    )
    assert result.exit_code == 0, result.output
    files, job = yaml.safe_load_all((here / "jobs/My_run/rayjob.yaml").read_text())
    assert (files["kind"], job["kind"]) == ("ConfigMap", "RayJob")
    assert files["metadata"]["name"] == job["metadata"]["name"] == "my-run"
    spec = job["spec"]["rayClusterSpec"]
    pods = [
        spec["headGroupSpec"]["template"]["spec"],
        spec["workerGroupSpecs"][0]["template"]["spec"],
    ]
    for pod in pods:
        volume, container = pod["volumes"][0], pod["containers"][0]
        assert container["resources"]["limits"]["nvidia.com/gpu"] == "4"
        folder = here / "mounted"
        for item in volume["configMap"]["items"]:  # what Kubernetes does with them
            path = folder / item["path"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(files["data"][item["key"]])
        assert container["volumeMounts"][0] == {"name": "job", "mountPath": "/job"}
    assert "train /job/config.yaml" in job["spec"]["entrypoint"]
    plan = CliRunner().invoke(app, ["train", str(folder / "config.yaml"), "--dry-run"])
    assert plan.exit_code == 0, plan.output
    assert str(folder / "files/mine.yaml") in plan.output


RUBRIC = "trca/rubric/libraries/alfworld.yaml"

SRUN = """#!/usr/bin/env bash
# Slurm's srun on one machine: whatever the node, the command runs here.
while [[ $1 == -* ]]; do [[ $1 == -w ]] && shift; shift; done
exec "$@"
"""


@pytest.mark.slow
def test_the_slurm_script_starts_ray_on_two_nodes_and_the_run_on_the_first(here):
    result = submit("--to=slurm", "--nodes=2", *SETTINGS)
    assert result.exit_code == 0, result.output
    assert "cd jobs/quickstart && sbatch job.sbatch" in result.output
    tools = here / "bin"
    tools.mkdir()
    for name, text in (("srun", SRUN), ("scontrol", "#!/bin/sh\necho one\necho two\n")):
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    job = here / "jobs/quickstart"
    environment = {
        **os.environ,
        "PATH": f"{tools}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": "",
        "SLURM_SUBMIT_DIR": str(job),
        "SLURM_JOB_ID": str(os.getpid()),
        "SLURM_JOB_NODELIST": "node[1-2]",
        "RAY_TMPDIR": "/tmp",
    }
    ended = subprocess.run(
        ["bash", "job.sbatch"],
        cwd=job,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-3000:]
    run = RunFolder.open(job / "runs/quickstart")
    assert run.read_json("status.json")["state"] == "finished"
    assert ended.stdout.count("Ray runtime started") == 2


def free_port():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]


TOKEN = "0123456789abcdef" * 4


def trca(*arguments, token=TOKEN):
    """The command in a new process: a process reads Ray's token once."""
    return subprocess.run(
        [sys.executable, "-m", "trca", *arguments],
        env={**os.environ, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token},
        capture_output=True,
        text=True,
        timeout=240,
    )


@contextmanager
def ray_head(agent_port):
    """The dashboard of a Ray cluster that wants a token."""
    port, folder = free_port(), tempfile.mkdtemp(prefix="ray", dir="/tmp")
    head = subprocess.Popen(
        [
            *(Path(sys.executable).with_name("ray"), "start", "--head", "--block", "--num-cpus=2"),
            *(f"--port={free_port()}", f"--dashboard-port={port}", "--disable-usage-stats"),
            *(f"--temp-dir={folder}", f"--dashboard-agent-listen-port={agent_port}"),
        ],
        env={
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": TOKEN,
        },
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while head.poll() is None and socket.socket().connect_ex(("127.0.0.1", port)):
        time.sleep(0.2)
    yield f"--address=http://127.0.0.1:{port}"
    head.terminate()
    head.wait()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def cluster():
    """The address of a Ray cluster that wants a token."""
    with ray_head(free_port()) as address:
        yield address


@pytest.mark.slow
def test_a_ray_cluster_takes_runs_and_tells_of_a_job(here, cluster):
    submitted = trca(
        *("submit", "quickstart", "--to=ray", cluster, f"--storage-path={here}/runs", *SETTINGS)
    )
    assert submitted.returncode == 0, submitted.stderr
    job = submitted.stdout.split()[1].rstrip(".")
    followed = trca("jobs", "logs", job, "--follow", cluster)
    assert followed.returncode == 0, followed.stdout + followed.stderr
    assert "What next" in followed.stdout
    assert RunFolder(here / "runs/quickstart").read_json("status.json")["state"] == "finished"
    listed = trca("jobs", "list", cluster).stdout
    assert job in listed
    assert "quickstart" in listed
    assert "SUCCEEDED" in trca("jobs", "status", job, cluster).stdout
    refused = trca("jobs", "stop", job, cluster, token="f" * 64)
    assert refused.returncode == 2
    assert "wants its token" in refused.stderr


@pytest.mark.slow
def test_a_ray_cluster_takes_a_sweep_as_one_job(here, cluster):
    sweep = {"base": "quickstart", "grid": {"lambda_": [0.8]}, "seeds": [0], "side_by_side": 1}
    (here / "mine.yaml").write_text(yaml.safe_dump(sweep))
    submitted = trca(
        *("submit", "mine.yaml", "--to=ray", cluster, f"--storage-path={here}/runs", *SETTINGS)
    )
    assert submitted.returncode == 0, submitted.stderr
    job = submitted.stdout.split()[1].rstrip(".")
    followed = trca("jobs", "logs", job, "--follow", cluster)
    assert followed.returncode == 0, followed.stdout + followed.stderr
    assert "lambda_=0.8  seed=0  iteration 1/1" in followed.stdout
    assert len((here / "runs/mine/sweep.md").read_text().splitlines()) == 3


SUBMIT_SOON = """
import trca.cli.commands.submit as submit
from trca.cli import app
submit._PATIENCE_S = 3.0
app(prog_name="trca")
"""


@pytest.mark.slow
def test_a_cluster_without_an_agent_is_reported_with_the_log_of_the_agent(here):
    with socket.socket() as taken:  # the agent cannot listen, and serves no jobs
        taken.bind(("0.0.0.0", 0))
        taken.listen()
        with ray_head(taken.getsockname()[1]) as address:
            job = ["submit", "quickstart", "--to=ray", address, f"--storage-path={here}/runs"]
            ended = subprocess.run(
                [sys.executable, "-c", SUBMIT_SOON, *job, *SETTINGS],
                env={**os.environ, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": TOKEN},
                capture_output=True,
                text=True,
                timeout=240,
            )
    log = "/tmp/ray/session_latest/logs/dashboard_agent.log"
    assert ended.returncode == 2, ended.stdout + ended.stderr
    assert "No agent of the Ray cluster takes the job yet" in ended.stdout
    assert log in ended.stdout
    assert f"log is {log} on the head node" in ended.stderr
