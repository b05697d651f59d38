"""Real sweeps by the real command: interrupted, killed, resumed, at a URI, with a failed trial."""

import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from functools import partial
from io import StringIO

import pytest
import yaml
from ray.tune.execution.insufficient_resources_manager import _InsufficientResourcesManager
from rich.console import Console
from typer.testing import CliRunner

from tests.cli.sweep.conftest import EASY, SWEEP
from trca.cli import app
from trca.cli.sweep.files import sweep_of
from trca.cli.sweep.progress import stopping_politely
from trca.cli.sweep.trials import begin
from trca.common.json_lines import read_lines
from trca.policies.shrunk import shrunk_model
from trca.runs.folder import RunFolder

SEARCH = {
    "base": {
        "algorithm": "GRPO",
        "env": "easy.py:Easy",
        "model": "shrunk:Qwen/Qwen2.5-1.5B-Instruct",
        "tracking": ["trackio"],
        "iterations": 2,
        "evaluation_tasks": 4,
        "tasks_per_iteration": 10,
        "group_size": 2,
        "max_new_tokens": 4,
        "max_prompt_tokens": 512,
    },
    "sample": {"env_config.ease": {"uniform": [0, 1]}},
    "samples": 3,
    "sample_seed": 6,
    "search": {"optuna": {"startup_points": 2}},
    "scheduler": {"asha": {"reduction_factor": 2}},
    "seeds": [0],
    "side_by_side": 1,
}

LISTED = """
import trackio

for run in trackio.Api().runs("trca"):
    print(run.config["_Group"], run.name)
"""


def environment():
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}


def finish(command):
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=1800)
    assert "Traceback" not in done.stdout + done.stderr
    return done


@pytest.mark.slow
def test_a_sweep_of_algorithms_stops_on_ctrl_c_and_goes_on_to_one_table(sweep, tmp_path):
    start, resume = sweep()
    process = subprocess.Popen(
        start, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment()
    )
    assert process.stdout is not None
    assert "2 trials, 2 side by side" in process.stdout.readline()
    process.send_signal(signal.SIGINT)
    output = process.stdout.read()
    assert process.wait() == 130, output
    folder = tmp_path / "runs" / "mine"
    assert f"trca sweep --resume {folder}" in output
    assert json.loads((folder / "status.json").read_text())["state"] == "interrupted"

    done = finish(resume)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads((folder / "sweep.json").read_text())
    assert [(row["point"]["algorithm"], row["n"], row["failed"]) for row in rows] == [
        ("TRCA", 1, 0),
        ("GRPO", 1, 0),
    ]
    assert all(len(row["evaluation/success_rate"]["values"]) == 1 for row in rows)
    assert "| algorithm | runs | success, held out |" in (folder / "sweep.md").read_text()
    assert (folder / "sweep.png").stat().st_size > 1000
    assert json.loads((folder / "status.json").read_text())["state"] == "finished"


@pytest.mark.slow
def test_a_trial_that_fails_leaves_the_others_which_are_runs_like_any(sweep, tmp_path):
    (tmp_path / "rules.py").write_text(
        "import numpy as np\n"
        "def good(batch):\n    return np.zeros(len(batch))\n"
        "def bad(batch):\n    raise ValueError('no credit today')\n"
    )
    start, _ = sweep(grid={"credit": ["rules.py:bad", "rules.py:good"]})
    done = finish(start)
    folder = tmp_path / "runs" / "mine"
    assert done.returncode == 1, done.stdout + done.stderr
    assert "failed: no credit today" in done.stdout
    assert "credit=rules.py:bad  seed=0" in done.stdout
    names = sorted(path.name for path in (folder / "trials").iterdir() if path.is_dir())
    assert names == ["001_credit-rules.py-bad_seed-0", "002_credit-rules.py-good_seed-0"]
    assert str(tmp_path) not in (folder / "sweep.md").read_text()
    assert "|" not in done.stdout
    assert "1 of 2 trials failed" in done.stderr
    assert f"trca sweep --resume {folder}" in done.stderr
    rows = json.loads((folder / "sweep.json").read_text())
    assert [(row["n"], row["failed"]) for row in rows] == [(0, 1), (1, 0)]
    (trial,) = rows[1]["runs"]
    assert RunFolder.open(trial).read_config()["credit"] == f"{trial}/files/rules.py:good"
    result = CliRunner().invoke(app, ["evaluate", trial, "--tasks=1"])
    assert result.exit_code == 0, result.output
    result = CliRunner().invoke(app, ["evaluate", str(folder)])
    assert result.exit_code == 2
    assert f"is a sweep: name a trial of it, such as {folder}/trials/001_" in " ".join(
        result.output.split()
    )


def kill_once(command, condition):
    """Kills a sweep and all processes of its session once the condition holds."""
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, env=environment(), start_new_session=True
    )
    while process.poll() is None and not condition():
        time.sleep(0.01)
    assert process.poll() is None, "the sweep ended before it was killed"
    process.send_signal(signal.SIGKILL)
    process.wait()
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def first_of_two_ended(folder):
    """Whether the first of two started trials has ended."""
    states = trial_states(folder)
    return len(states) >= 2 and states[0]


def trial_states(folder):
    """Whether each started trial has finished."""
    paths = sorted(folder.glob("trials/*/trial.json"))
    return [(path.parent / "evaluation.json").exists() for path in paths]


@pytest.mark.slow
def test_a_sweep_killed_without_a_word_resumes_to_the_same_table(tmp_path, monkeypatch):
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "easy.py").write_text(EASY)
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(SEARCH))
    command = [sys.executable, "-m", "trca", "sweep", "mine.yaml"]
    done = finish([*command, "--name=whole"])
    assert done.returncode == 0, done.stdout + done.stderr
    whole = tmp_path / "outputs" / "whole"
    first, *others = json.loads((whole / "sweep.json").read_text())
    assert first["n"] == 1
    assert first["success_rate"]["mean"] == pytest.approx(
        first["point"]["env_config.ease"], abs=0.1
    )
    stopped = [row for row in others if row["stopped"]]
    assert stopped, "no trial was stopped early"
    for row in stopped:
        (stop,) = row["stopped"]
        assert (row["n"], stop["iteration"], stop["trajectories"]) == (0, 1, 20)
        assert row["point"]["env_config.ease"] < first["point"]["env_config.ease"]
        assert f"iteration 1, 20 rollouts, success_rate {stop['value']:.3g}" in done.stdout
        assert not os.path.exists(f"{stop['run']}/evaluation.json")
    assert others[-1]["point"]["env_config.ease"] > 0.8  # Optuna prefers easy tasks

    killed = tmp_path / "outputs" / "killed"
    kill_once([*command, "--name=killed"], partial(first_of_two_ended, killed))
    assert not (killed / "sweep.md").exists()
    (tmp_path / "easy.py").unlink()  # the sweep has a copy
    done = finish([*command[:-1], "--resume=killed"])
    assert done.returncode == 0, done.stdout + done.stderr
    assert (killed / "sweep.md").read_text() == (whole / "sweep.md").read_text()

    # A trial that was killed and resumed is one run of the tracker.
    done = subprocess.run([sys.executable, "-c", LISTED], capture_output=True, text=True)
    tracked = [line.split() for line in done.stdout.splitlines()]
    names = [name.rpartition("-")[0] for group, name in tracked if group == "killed"]
    paths = (killed / "trials").iterdir()
    assert sorted(names) == sorted(path.name for path in paths if path.is_dir())


@pytest.mark.slow
def test_a_trial_with_other_settings_is_refused_and_keeps_its_records(sweep, tmp_path):
    start, resume = sweep(set={**SWEEP["set"], "iterations": 5}, grid={"lambda_": [0.8]})
    trial = tmp_path / "runs" / "mine" / "trials" / "001_lambda-0.8_seed-0"
    kill_once(start, lambda: len(RunFolder(trial).metrics()) >= 2)
    rows, config = RunFolder(trial).metrics(), trial / "config.yaml"
    text = config.read_text()
    changed = text.replace("lr: 0.0004", "lr: 0.0002")
    assert changed != text
    config.write_text(changed)
    done = finish(resume)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "holds a trial with other settings" in " ".join(done.stdout.split())
    assert RunFolder(trial).metrics() == rows
    assert RunFolder(trial).read_config()["lr"] == 2e-4
    config.write_text(text)
    done = finish(resume)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(RunFolder(trial).metrics()) == 5


@pytest.mark.slow
def test_a_sweep_is_stored_at_a_uri(sweep, tmp_path, monkeypatch):
    monkeypatch.setenv("TRCA_CACHE", str(tmp_path / "first"))
    shutil.copytree(shrunk_model("Qwen/Qwen2.5-1.5B-Instruct"), tmp_path / "model")
    library = shutil.copy("trca/rubric/libraries/alfworld.yaml", tmp_path / "rubric.yaml")
    settings = {**SWEEP["set"], "model": str(tmp_path / "model"), "iterations": 4}
    sweep(set=settings | {"env_config.library": str(library)}, grid={"lambda_": [0.2]})
    uri = f"file://{tmp_path}/bucket"
    command = [sys.executable, "-m", "trca", "sweep", f"--storage-path={uri}"]
    bucket = tmp_path / "bucket" / "mine"
    trial = bucket / "trials" / "001_lambda-0.2_seed-0"
    kill_once([*command, str(tmp_path / "mine.yaml")], (trial / "checkpoints/last.link").exists)
    monkeypatch.setenv("TRCA_CACHE", str(tmp_path / "second"))
    done = finish([*command, str(tmp_path / "mine.yaml"), "--auto-resume"])
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"trca evaluate {uri}/mine/trials/001_lambda-0.2_seed-0" in done.stdout
    (row,) = json.loads((bucket / "sweep.json").read_text())
    assert row["n"] == 1
    (incident,) = read_lines(trial / "failures.jsonl")
    assert incident["action"].startswith("resumed after iteration ")
    monkeypatch.setenv("TRCA_CACHE", str(tmp_path / "third"))
    (address,) = row["runs"]
    run = RunFolder.open(address)
    assert run.checkpoint_iteration() == 4
    assert [each["iteration"] for each in run.metrics()] == [1, 2, 3, 4]
    assert "0 of 1 trials" in finish([*command, f"--resume={uri}/mine"]).stdout


def test_a_resumed_sweep_takes_no_options_and_a_run_is_no_sweep(tmp_path):
    RunFolder.create(tmp_path, "run").write_config({"algorithm": "TRCA", "seed": 0})

    def refused(*arguments):
        command = ["sweep", f"--storage-path={tmp_path}", "--resume=run", *arguments]
        result = CliRunner().invoke(app, command)
        assert result.exit_code == 2, result.output
        return " ".join(result.output.split())

    assert "is no sweep: resume a run by trca train --resume run" in refused()
    assert "--set with --resume: a sweep keeps its settings" in refused("--set=lr=1")
    assert "--name, --dry-run with --resume" in refused("--name=other", "--dry-run")
    assert "other.yaml with --resume" in refused("other.yaml")


def test_a_job_that_starts_again_resumes_no_run(tmp_path):
    RunFolder.create(tmp_path, "mine").write_config({"algorithm": "TRCA", "seed": 0})
    command = ["sweep", "sweeps/ablations", f"--storage-path={tmp_path}", "--name=mine"]
    result = CliRunner().invoke(app, [*command, "--auto-resume"])
    assert result.exit_code == 2, result.output
    assert "is no sweep: resume a run by trca train --resume mine" in " ".join(
        result.output.split()
    )


def test_a_job_that_starts_again_with_another_grid_is_refused(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(SWEEP))
    settings = sweep_of(str(path), None)
    begin(settings, RunFolder.create(tmp_path, "mine"))
    path.write_text(yaml.safe_dump({**SWEEP, "seeds": [0, 1]}))
    command = ["sweep", str(path), f"--storage-path={tmp_path}", "--auto-resume"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 2, result.output
    text = " ".join(result.output.split())
    assert "mine exists with seeds: [0], not [0, 1]: name another sweep" in text


def test_a_trial_that_no_node_can_hold_is_printed():
    lines = StringIO()
    with stopping_politely(Console(file=lines, width=1000)):
        logging.getLogger(_InsufficientResourcesManager.__module__).warning("%d CPUs", 9)
    assert lines.getvalue() == "waiting: 9 CPUs\n"
