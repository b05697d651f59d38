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

from tests.cli.calls import done, refused
from tests.cli.commands.test_train import SMALL
from tests.conftest import unused_port
from trca import rubric
from trca.runs.folder import RunFolder

RUBRIC = "libraries/alfworld.yaml"
GIVEN = [part for part in SMALL if part.startswith("--set")]
SETTINGS = [*GIVEN, "--set=model=shrunk:Qwen/Qwen2.5-1.5B-Instruct", "--set=iterations=1"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--storage-path=outputs"], "--storage-path is outputs: name what"),
        (["--storage-path=/mnt/runs", "--set=lr=-1"], "lr"),
        (["--to=kuberay"], "copy examples/cluster/kuberay.yaml"),
        (["--to=skypilot"], "copy examples/cluster/skypilot.yaml"),
    ],
)
def test_what_a_cluster_could_not_run_is_refused_here(here, arguments, message):
    assert message in refused("submit", "quickstart", *arguments)
    assert not list(here.iterdir())


def test_a_dry_run_shows_the_job_and_writes_nothing(here):
    (here / "mine.yaml").write_text((Path(rubric.__file__).parent / RUBRIC).read_text())
    given = "--set=env_config.library=mine.yaml"
    output = done("submit", "quickstart", "--storage-path=s3://b/r", given, "--dry-run")
    command = "train config.yaml --name quickstart --storage-path s3://b/r --auto-resume"
    assert f"python -m trca {command}\n" in output
    assert "env: trca/ALFWorld-v0" in output
    assert "In the same folder: trca/, mine.yaml" in output
    assert [path.name for path in here.iterdir()] == ["mine.yaml"]


def test_a_sweep_is_one_job(here):
    (here / "mine.yaml").write_text(
        "base: quickstart\nsample: {lr: {loguniform: [1e-4, 1e-3]}}\nsamples: 4\nsearch: optuna\n"
        "seeds: [0]\nside_by_side: 4\n"
    )
    output = done(
        "submit", "mine.yaml", "--storage-path=s3://b/r", "--set=iterations=3", "--dry-run"
    )
    assert "-m trca sweep config.yaml --name mine --storage-path s3://b/r" in output
    assert "iterations: 3" in output
    assert "samples: 4" in output
    assert "env: trca/ALFWorld-v0" in output  # the base travels with the sweep


TOKEN = "0123456789abcdef" * 4


def trca(*arguments, token=TOKEN):
    """The command in a new process: a process reads Ray's token once."""
    return subprocess.run(
        [sys.executable, "-m", "trca", *arguments],
        env={**os.environ, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token},
        capture_output=True,
        text=True,
        timeout=800,
    )


@contextmanager
def ray_head(agent_port):
    """The dashboard of a Ray cluster that wants a token."""
    port, folder = unused_port(), tempfile.mkdtemp(prefix="ray", dir="/tmp")
    head = subprocess.Popen(
        [
            *(Path(sys.executable).with_name("ray"), "start", "--head", "--block", "--num-cpus=2"),
            *(f"--port={unused_port()}", f"--dashboard-port={port}", "--disable-usage-stats"),
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
    with ray_head(unused_port()) as address:
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
    stranger = trca("jobs", "stop", job, cluster, token="f" * 64)
    assert stranger.returncode == 2
    assert "wants its token" in stranger.stderr


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
from trca import rubric
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
                timeout=800,
            )
    log = "/tmp/ray/session_latest/logs/dashboard_agent.log"
    assert ended.returncode == 2, ended.stdout + ended.stderr
    assert "No agent of the Ray cluster takes the job yet" in ended.stdout
    assert log in ended.stdout
    assert f"log is {log} on the head node" in ended.stderr
