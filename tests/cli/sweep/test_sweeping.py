"""Real sweeps by the real command: interrupted, killed at a URI, resumed, with a failed trial."""

import json
import logging
import shutil
import signal
from io import StringIO

import pytest
import yaml
from ray.tune.execution.insufficient_resources_manager import _InsufficientResourcesManager
from rich.console import Console

from tests.cli import calls
from tests.cli.sweep.conftest import COMMAND, SWEEP, finish, kill_once, started, succeed
from trca.cli.sweep.sweeping import shown_on
from trca.cli.sweep.trials import sweep_of
from trca.common.json_lines import read_lines
from trca.policies.shrunk import shrunk_model
from trca.runs.folder import RunFolder


@pytest.mark.slow
def test_a_sweep_of_algorithms_stops_on_ctrl_c_and_goes_on_to_one_table(sweep, tmp_path):
    start, resume = sweep()
    process = started(start)
    assert "2 trials, 2 side by side" in process.stdout.readline()
    process.send_signal(signal.SIGINT)
    output = process.stdout.read()
    assert process.wait() == 130, output
    folder = tmp_path / "runs" / "mine"
    assert f"trca sweep --resume {folder}" in output
    assert json.loads((folder / "status.json").read_text())["state"] == "interrupted"

    succeed(resume)
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
    assert "1 of 2 trials failed:" in done.stderr
    assert "  001_credit-rules.py-bad_seed-0: no credit today (in credit rule" in done.stderr
    assert f"trca sweep --resume {folder}" in done.stderr
    rows = json.loads((folder / "sweep.json").read_text())
    assert [(row["n"], row["failed"]) for row in rows] == [(0, 1), (1, 0)]
    (trial,) = rows[1]["runs"]
    assert RunFolder.open(trial).read_config()["credit"] == f"{trial}/files/rules.py:good"
    calls.done("evaluate", trial, "--tasks=1")
    words = f"is a sweep: name a trial of it, such as {folder}/trials/001_"
    assert words in calls.refused("evaluate", folder)


@pytest.mark.slow
def test_a_killed_sweep_at_a_uri_goes_on_and_refuses_a_trial_with_other_settings(
    sweep, tmp_path, monkeypatch
):
    monkeypatch.setenv("TRCA_CACHE", str(tmp_path / "first"))
    shutil.copytree(shrunk_model("Qwen/Qwen2.5-1.5B-Instruct"), tmp_path / "model")
    library = shutil.copy("trca/rubric/libraries/alfworld.yaml", tmp_path / "rubric.yaml")
    settings = {**SWEEP["set"], "model": str(tmp_path / "model"), "iterations": 5}
    sweep(set=settings | {"env_config.library": str(library)}, grid={"lambda_": [0.2]})
    uri = f"file://{tmp_path}/bucket"
    command = [*COMMAND, f"--storage-path={uri}"]
    bucket = tmp_path / "bucket" / "mine"
    trial = bucket / "trials" / "001_lambda-0.2_seed-0"
    kill_once([*command, str(tmp_path / "mine.yaml")], (trial / "checkpoints/last.link").exists)
    monkeypatch.setenv("TRCA_CACHE", str(tmp_path / "second"))
    rows, config = RunFolder(trial).metrics(), trial / "config.yaml"
    assert rows
    text, status = config.read_text(), (trial / "status.json").read_text()
    changed = text.replace("lr: 0.0004", "lr: 0.0002")
    assert changed != text
    config.write_text(changed)
    done = finish([*command, f"--resume={uri}/mine"])
    assert done.returncode == 1, done.stdout + done.stderr
    assert "holds a run with lr: 0.0002, not 0.0004" in " ".join(done.stdout.split())
    assert RunFolder(trial).metrics() == rows
    assert RunFolder(trial).read_config()["lr"] == 2e-4
    config.write_text(text)
    (trial / "status.json").write_text(status)  # of the killed process
    output = succeed([*command, str(tmp_path / "mine.yaml"), "--auto-resume"])
    assert f"trca evaluate {uri}/mine/trials/001_lambda-0.2_seed-0" in output
    (row,) = json.loads((bucket / "sweep.json").read_text())
    assert row["n"] == 1
    (incident,) = read_lines(trial / "failures.jsonl")
    assert incident["action"].startswith("resumed after iteration ")
    monkeypatch.setenv("TRCA_CACHE", str(tmp_path / "third"))
    (address,) = row["runs"]
    run = RunFolder.open(address)
    assert run.checkpoint_iteration() == 5
    assert [each["iteration"] for each in run.metrics()] == [1, 2, 3, 4, 5]
    assert "0 of 1 trials" in finish([*command, f"--resume={uri}/mine"]).stdout


def test_a_resumed_sweep_takes_no_options_and_a_run_is_no_sweep(tmp_path):
    RunFolder.create(tmp_path, "run").write_config({"algorithm": "TRCA", "seed": 0})

    def refused(*arguments):
        return calls.refused("sweep", f"--storage-path={tmp_path}", "--resume=run", *arguments)

    assert "is not a sweep: resume a run by trca train --resume run" in refused()
    assert "--set with --resume: a sweep keeps its settings" in refused("--set=lr=1")
    assert "--base, --name, --dry-run with --resume" in refused(
        "--base=webshop", "--name=other", "--dry-run"
    )
    assert "other.yaml with --resume" in refused("other.yaml")
    job = ["sweep", "sweeps/ablations", f"--storage-path={tmp_path}", "--name=run"]
    assert "is not a sweep: resume a run by" in calls.refused(*job, "--auto-resume")


def test_a_job_that_starts_again_with_another_grid_is_refused(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(SWEEP))
    settings = sweep_of(str(path), None)
    folder = RunFolder.create(tmp_path, "mine")
    folder.write_settings(settings.with_base().model_dump())
    path.write_text(yaml.safe_dump({**SWEEP, "seeds": [0, 1]}))
    text = calls.refused("sweep", path, f"--storage-path={tmp_path}", "--auto-resume")
    assert "mine exists with seeds: [0], not [0, 1]: name another sweep" in text


def test_a_trial_that_no_node_can_hold_is_printed():
    lines = StringIO()
    with shown_on(Console(file=lines, width=1000)):
        logging.getLogger(_InsufficientResourcesManager.__module__).warning("%d CPUs", 9)
    assert lines.getvalue() == "waiting: 9 CPUs\n"
