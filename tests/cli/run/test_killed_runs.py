"""Killed runs go on, and a Ray that is killed while it starts is started again.

The processes whose Ray is killed wait most of the time, so they start first and run during the
other tests of this file.
"""

import shutil
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from tempfile import TemporaryDirectory

import pytest

from tests.cli.calls import done
from tests.cli.commands.test_train import SMALL, environment, figures, run, trca, weights
from trca.common.json_lines import read_lines
from trca.runs.folder import RunFolder

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A folder with one finished run of a process, and the output of the run."""
    folder = tmp_path_factory.mktemp("runs")
    return folder, run(folder, "train", "quickstart", *SMALL)


START_LATE = """
import os, psutil, ray, subprocess, threading, time
from trca.cli.run import training

def kill_the_first(count):
    killed = set()
    while len(killed) < count:
        for child in psutil.Process().children():
            if child.pid not in killed and child.name() == "raylet":
                child.kill()
                killed.add(child.pid)
        time.sleep(0.05)

threading.Thread(target=kill_the_first, args=(LATE,), daemon=True).start()
"""

AGAIN = """
os.environ["RAY_gcs_server_port_wait_time_s"] = "0"  # the first process of the first start is late

def say(line):
    os.environ.pop("RAY_gcs_server_port_wait_time_s", None)
    print(line)

training.init_ray(1, say)
print(ray.get(ray.remote(lambda: "up").remote()))
servers = ["pgrep", "-c", "-P", str(os.getpid()), "gcs_server"]
print(subprocess.run(servers, capture_output=True, text=True).stdout.strip())
"""
NEVER = """
training._PATIENCE_S = 20.0
training.init_ray(1, print)
"""


@pytest.fixture(scope="module", autouse=True)
def late_starts():
    """Processes whose first starts of Ray lose their raylet, as if it came late."""
    usual = {k: v for k, v in environment().items() if k != "RAY_ADDRESS"}
    processes = []
    with ExitStack() as stack:
        for code, late in ((AGAIN, 3), (NEVER, 1)):
            folder = TemporaryDirectory(prefix="ray", ignore_cleanup_errors=True)
            process = subprocess.Popen(
                [sys.executable, "-c", START_LATE.replace("LATE", str(late)) + code],
                env={**usual, "RAY_TMPDIR": stack.enter_context(folder)},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            stack.callback(process.kill)
            processes.append(process)
        yield processes


NEVER_THIRD = """
import time
from trca.cli import app
from trca.runs.folder import RunFolder

append = RunFolder.append_metrics

def append_two(run, row):
    if row["iteration"] == 3:
        time.sleep(600)  # until the kill
    append(run, row)

RunFolder.append_metrics = append_two
app(prog_name="trca")
"""


def kill_in_second_iteration(folder, metrics, *arguments, **more):
    _, _, _, *command = trca(folder, "train", "quickstart", *SMALL, *arguments)
    process = subprocess.Popen(
        [sys.executable, "-c", NEVER_THIRD, *command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment(**more),
    )
    while process.poll() is None and not (metrics.exists() and metrics.read_text().count("\n") > 1):
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.wait()


def test_a_killed_run_goes_on_and_ends_bit_for_bit_where_it_would_have(runs):
    folder, _ = runs
    kill_in_second_iteration(folder, folder / "killed" / "metrics.jsonl", "--name=killed")
    assert RunFolder(folder / "killed").last_iteration() in (1, 2)
    run(folder, "train", "--resume=killed")
    whole, resumed = folder / "quickstart", folder / "killed"
    (driver,) = read_lines(RunFolder(resumed).failures)
    assert (driver["kind"], driver["action"][:23]) == ("driver", "resumed after iteration")
    assert figures(resumed) == figures(whole)
    assert weights(RunFolder(resumed).checkpoint()) == weights(RunFolder(whole).checkpoint())


def test_a_job_killed_on_one_machine_goes_on_on_another(runs, tmp_path, monkeypatch):
    bucket = f"file://{tmp_path}/bucket"
    job = ("--name=job", "--auto-resume")
    first, second = {"TRCA_CACHE": str(tmp_path / "1")}, {"TRCA_CACHE": str(tmp_path / "2")}
    kill_in_second_iteration(bucket, tmp_path / "bucket/job/metrics.jsonl", *job, **first)
    assert f"trca evaluate {bucket}/job@last" in run(
        bucket, "train", "quickstart", *SMALL, *job, **second
    )
    monkeypatch.setenv("TRCA_CACHE", str(tmp_path / "3"))
    resumed, whole = RunFolder.open(f"{bucket}/job"), RunFolder(runs[0] / "quickstart")
    assert figures(resumed.path) == figures(whole.path)
    assert weights(resumed.checkpoint()) == weights(whole.checkpoint())


def test_a_run_killed_before_it_said_that_it_was_finished_is_finished(runs, cluster, tmp_path):
    whole = RunFolder(runs[0] / "quickstart")
    killed = RunFolder(shutil.copytree(whole.path, tmp_path / "quickstart", symlinks=True))
    killed.set_status("running", 3)
    assert "What next:" in done("train", "--resume=quickstart", f"--storage-path={tmp_path}")
    assert killed.status()["state"] == "finished"
    assert killed.metrics() == whole.metrics()
    assert weights(killed.checkpoint()) == weights(whole.checkpoint())


def test_ray_is_started_again_with_a_line_of_progress_each_time_it_came_late(late_starts):
    """Four starts come late; one more than a run had before it ended."""
    again, _ = late_starts
    out, err = again.communicate()
    *progress, up, servers = out.splitlines() or ["", ""]
    assert (up, servers) == ("up", "1"), out + err
    assert len(progress) >= 4  # a busy machine may add some
    for number, (line, pause) in enumerate(zip(progress, (2, 4, 8, 16), strict=False), 1):
        assert line.startswith(f"Ray did not start in 30 s on this busy machine (try {number}, ")
        assert line.endswith(f" of 600 s): trying again in {pause} s")


def test_ray_that_never_starts_ends_the_run_with_the_reason(late_starts):
    _, never = late_starts
    out, err = never.communicate()
    assert (never.returncode, out) == (1, "")
    assert "1 tries of 30 s: this machine is too busy. End other programs" in err
