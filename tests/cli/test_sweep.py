"""Real sweeps by the real command: interrupted and gone on with, and with a trial that fails."""

import json
import os
import signal
import subprocess
import sys

import pytest
import yaml
from typer.testing import CliRunner

from trca.cli import app
from trca.cli.run_folder import RunFolder
from trca.cli.sweeping import joined, make_trials, point_words, summarise
from trca.tune_configs.sweeps import SweepSettings

SWEEP = {
    "base": "quickstart",
    "set": {
        "model": "shrunk:Qwen/Qwen2.5-1.5B-Instruct",
        "iterations": 1,
        "evaluation_interval": 5,
        "evaluation_tasks": 2,
        "tasks_per_iteration": 1,
        "group_size": 2,
        "env_config.max_steps": 2,
        "max_new_tokens": 4,
        "max_prompt_tokens": 160,
        "num_env_runners": 0,
        "num_learners": 0,
    },
    "grid": {"algorithm": ["TRCA", "GRPO"]},
    "seeds": [0],
    "side_by_side": 2,
}


@pytest.fixture
def sweep(tmp_path):
    """Writes a sweep and gives the command that runs it."""

    def command(**changes):
        path = tmp_path / "mine.yaml"
        path.write_text(yaml.safe_dump(SWEEP | changes))
        start = [sys.executable, "-m", "trca", "sweep", f"--storage-path={tmp_path}/runs"]
        return [*start, str(path)], [*start, "--resume=mine"]

    return command


def environment():
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}


def finish(command):
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=500)
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
    told = process.stdout.read()
    assert process.wait() == 130, told
    folder = tmp_path / "runs" / "mine"
    assert f"trca sweep --resume {folder}" in told
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
    names = sorted(path.name for path in (folder / "trials").iterdir())
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
    assert "is a sweep: name a trial of it" in result.output


def test_points_name_files_by_name_and_by_their_folders_where_two_have_one():
    words = point_words(
        [
            {"credit": "/home/me/rules.py:good", "env_config.library": "/a/mine.yaml", "lr": 0.1},
            {"credit": "/home/me/rules.py:bad", "env_config.library": "/b/mine.yaml", "lr": 0.2},
        ]
    )
    assert [joined(each) for each in words] == [
        "credit=rules.py:good  env_config.library=a/mine.yaml  lr=0.1",
        "credit=rules.py:bad  env_config.library=b/mine.yaml  lr=0.2",
    ]
    assert point_words([{"model": "shrunk:Qwen/Qwen2.5-1.5B-Instruct"}]) == [
        {"model": "shrunk:Qwen/Qwen2.5-1.5B-Instruct"}
    ]


def test_a_uri_is_refused_before_anything_is_written(sweep, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sweep()
    result = CliRunner().invoke(app, ["sweep", "mine.yaml", "--storage-path=s3://bucket/runs"])
    assert result.exit_code == 2
    assert "such as /shared/runs; a single run takes a URI" in " ".join(result.output.split())
    assert [path.name for path in tmp_path.iterdir()] == ["mine.yaml"]


def test_a_dry_run_shows_the_trials_and_makes_nothing(sweep, tmp_path):
    sweep(seeds=[0, 1])
    command = ["sweep", str(tmp_path / "mine.yaml"), f"--storage-path={tmp_path}/runs", "--dry-run"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    assert "4 trials, 2 side by side: 2 points with 2 seeds; 8 rollouts in all" in result.output
    assert "algorithm=GRPO" in result.output
    assert not (tmp_path / "runs").exists()


def test_every_point_is_run_on_every_panel_and_its_runs_are_pooled(tmp_path):
    games = [{"env_config.games": f"small-{k}"} for k in (7, 8)]
    settings = SweepSettings.resolve({**SWEEP, "seeds": [0, 1], "panels": games}, "mine")
    trials = make_trials(settings, RunFolder.create(tmp_path, "sweep"))
    assert len(trials) == len(settings.points()) * settings.repeats == 8
    assert trials[2].label == "algorithm=TRCA  env_config.games=small-8  seed=0"
    assert trials[2].run.name == "003_algorithm-TRCA_games-small-8_seed-0"
    assert [t.run.read_config()["env_config"]["games"] for t in trials[:4]] == [
        *("small-7", "small-7"),
        *("small-8", "small-8"),
    ]
    for number, trial in enumerate(trials):
        row = {"iteration": 1, "success_rate": number / 10, "evaluation/success_rate": 0.5}
        trial.run.append_metrics(row)
        trial.run.set_status("finished", 1)
    trca, grpo = summarise(trials)
    assert (trca["n"], grpo["n"]) == (4, 4)
    assert trca["success_rate"]["values"] == [0.0, 0.1, 0.2, 0.3]
    assert trca["success_rate"]["half_width"] == pytest.approx(3.1824 * 0.12910 / 2, rel=1e-3)
    assert trca["evaluation/success_rate"]["half_width"] == 0.0


def test_a_mapping_reads_as_words():
    words = point_words([{"budgets": {"evidence": 0.1, "execution": 0.5}}])
    assert words == [{"budgets": "evidence 0.1, execution 0.5"}]


def test_a_wrong_sweep_is_refused_before_anything_is_made(sweep, tmp_path):
    sweep(grid={"lamda_": [0.1]})
    result = CliRunner().invoke(
        app, ["sweep", str(tmp_path / "mine.yaml"), f"--storage-path={tmp_path}/runs"]
    )
    assert result.exit_code == 2
    assert "'lambda_'" in result.output
    assert not (tmp_path / "runs").exists()


def test_what_one_algorithm_alone_has_is_left_out_of_another_s_trials():
    changed = {**SWEEP, "set": {**SWEEP["set"], "lambda_": 0.5}}
    settings = SweepSettings.resolve(changed, "mine")
    trca, grpo = (settings.trial(point, 0) for point in settings.points())
    assert trca.flat()["lambda_"] == 0.5
    assert grpo.run.algorithm == "GRPO"
    assert "lambda_" not in grpo.flat()
