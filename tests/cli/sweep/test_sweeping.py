"""Real sweeps by the real command: interrupted, killed and resumed, and with a trial that fails."""

import json
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from io import StringIO
from pathlib import Path

import pytest
import yaml
from ray.tune.execution.insufficient_resources_manager import _InsufficientResourcesManager
from rich.console import Console
from typer.testing import CliRunner

from trca.cli import app
from trca.cli.sweep.files import shipped_sweeps
from trca.cli.sweep.progress import stopping_politely
from trca.cli.sweep.sweeping import cpus_of_ray
from trca.cli.sweep.table import curves, summarise, write_table
from trca.cli.sweep.trials import joined, point_words, read_trials
from trca.policies.shrunk import shrunk_model
from trca.runs.folder import RunFolder
from trca.tune_configs.files import ConfigError
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


EASY = """
from trca.envs.text_env import Outcome, TextEnv


class Easy(TextEnv):
    def __init__(self, split="train", max_steps=1, ease=0.5):
        super().__init__(split, max_steps)
        self._ease = ease

    @property
    def task_ids(self):
        return tuple(f"{self.split}-{number}" for number in range(10))

    instruction = "say anything."
    task_type = "Easy"
    admissible_actions = ("anything",)

    def start_task(self, task_id, options):
        self._easy = int(task_id.rpartition("-")[2]) < 10 * self._ease
        return "You are free to speak."

    def take_action(self, action):
        return Outcome("It was easy." if self._easy else "It was hard.", float(self._easy), True)
"""
"""An environment whose share of tasks that are won is a setting: results follow from the point."""
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


def kill_after_the_first_trial(command, folder):
    """Kills a sweep without a word, and what is left of its session."""
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, env=environment(), start_new_session=True
    )
    while process.poll() is None and (len(states := trial_states(folder)) < 2 or not states[0]):
        time.sleep(0.01)
    assert process.poll() is None, "it ended before it was killed"
    process.send_signal(signal.SIGKILL)
    process.wait()
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def trial_states(folder):
    """Whether each trial there is has finished."""
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
    assert others[-1]["point"]["env_config.ease"] > 0.8  # Optuna goes where it is easy

    killed = tmp_path / "outputs" / "killed"
    kill_after_the_first_trial([*command, "--name=killed"], killed)
    assert not (killed / "sweep.md").exists()
    (tmp_path / "easy.py").unlink()  # it has its own copy
    done = finish([*command[:-1], "--resume=killed"])
    assert done.returncode == 0, done.stdout + done.stderr
    assert (killed / "sweep.md").read_text() == (whole / "sweep.md").read_text()

    # A trial that was killed and resumed is one run of the tracker.
    done = subprocess.run([sys.executable, "-c", LISTED], capture_output=True, text=True)
    tracked = [line.split() for line in done.stdout.splitlines()]
    names = [name.rpartition("-")[0] for group, name in tracked if group == "killed"]
    paths = (killed / "trials").iterdir()
    assert sorted(names) == sorted(path.name for path in paths if path.is_dir())


def made(settings, folder):
    """The trials of a sweep, each with an empty run folder."""
    trials = read_trials(settings, folder)
    for trial in trials:
        trial.run.path.mkdir(parents=True)
    return trials


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


@pytest.mark.slow
def test_a_sweep_is_stored_at_a_uri(sweep, tmp_path, monkeypatch):
    monkeypatch.setenv("TRCA_CACHE", str(tmp_path / "first"))
    shutil.copytree(shrunk_model("Qwen/Qwen2.5-1.5B-Instruct"), tmp_path / "model")
    sweep(set={**SWEEP["set"], "model": str(tmp_path / "model")}, grid={"lambda_": [0.2]})
    uri = f"file://{tmp_path}/bucket"
    command = [sys.executable, "-m", "trca", "sweep", f"--storage-path={uri}"]
    done = finish([*command, str(tmp_path / "mine.yaml")])
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"trca evaluate {uri}/mine/trials/001_lambda-0.2_seed-0" in done.stdout
    bucket = tmp_path / "bucket" / "mine"
    (row,) = json.loads((bucket / "sweep.json").read_text())
    assert row["n"] == 1
    monkeypatch.setenv("TRCA_CACHE", str(tmp_path / "second"))
    (trial,) = row["runs"]
    assert RunFolder.open(trial).checkpoint_iteration() == 1
    for again in ([f"--resume={uri}/mine"], [str(tmp_path / "mine.yaml"), "--auto-resume"]):
        done = finish([*command, *again])
        assert "0 of 1 trials" in done.stdout
    assert (bucket / "trials").is_dir()


def test_every_point_is_checked_against_the_machine(sweep, tmp_path, monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    sweep(set={"num_learners": 1}, grid={"num_gpus_per_learner": [0, 64]})
    command = ["sweep", str(tmp_path / "mine.yaml"), f"--storage-path={tmp_path}/runs"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 2, result.output
    assert "num_gpus_per_learner=64: the run asks for 64 GPUs" in " ".join(result.output.split())
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(("side_by_side", "cpus"), [(2, 16), (None, 8)])
def test_ray_gets_the_cpus_of_the_largest_point_for_each_trial(side_by_side, cpus):
    settings = {**SWEEP, "set": {"num_learners": 1}, "grid": {"num_env_runners": [0, 6, 2]}}
    settings["side_by_side"] = side_by_side
    assert cpus_of_ray(SweepSettings.resolve(settings, "mine")) == cpus


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


@pytest.mark.parametrize(("given", "words"), [(None, "lr is -1"), ([1], "set is [1]")])
def test_a_sweep_file_with_an_empty_or_wrong_set_is_read_or_refused(sweep, tmp_path, given, words):
    sweep(set=given, grid={"lr": [-1]})
    result = CliRunner().invoke(app, ["sweep", str(tmp_path / "mine.yaml"), "--dry-run"])
    assert result.exit_code == 2, result.output
    assert words in " ".join(result.output.split())


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
    trials = made(settings, RunFolder.create(tmp_path, "sweep"))
    assert len(trials) == len(settings.every_point()) * settings.repeats == 8
    assert trials[2].label == "algorithm=TRCA  env_config.games=small-8  seed=0"
    assert trials[2].run.name == "003_algorithm-TRCA_games-small-8_seed-0"
    for number, trial in enumerate(trials):
        held_out = [0.1, 0.3, 0.5, 0.9, 0.2, 0.4, 0.7, 0.9][number]
        row = {"iteration": 1, "success_rate": number / 10, "evaluation/success_rate": held_out}
        trial.run.append_metrics(row)
        trial.run.set_status("finished", 1)
    trca, grpo = summarise(trials, settings.repeats)
    assert (trca["n"], grpo["n"]) == (4, 4)
    assert trca["success_rate"]["values"] == [0.0, 0.1, 0.2, 0.3]
    assert trca["success_rate"]["mean"] == pytest.approx(0.15)
    # Over the two panels' means, .05 and .25, whatever the number of seeds.
    assert trca["success_rate"]["half_width"] == pytest.approx(12.706 * 0.1, rel=1e-3)
    # Both panels differ much, and the points on them little: by .1 on each.
    held_out = grpo["evaluation/success_rate"]
    assert "difference" not in trca["evaluation/success_rate"]
    assert held_out["half_width"] == pytest.approx(12.706 * 0.25, rel=1e-3)
    assert held_out["difference"] == pytest.approx({"mean": 0.1, "half_width": 0.0}, abs=1e-9)


def test_a_difference_is_over_the_panels_and_seeds_that_both_points_have(tmp_path):
    games = [{"env_config.games": f"small-{k}"} for k in (7, 8, 9)]
    settings = SweepSettings.resolve({**SWEEP, "seeds": [0, 1], "panels": games}, "mine")
    folder = RunFolder.create(tmp_path, "sweep")
    trials = made(settings, folder)
    first, second = [0.0, 0.9, 0.2, 0.4, 0.5, 0.7], [0.1, 0.9, 0.5, 0.7, 0.0, 0.0]
    for number, (trial, rate) in enumerate(zip(trials, first + second, strict=True)):
        trial.run.append_metrics({"iteration": 1, "evaluation/success_rate": rate})
        trial.run.set_status("failed" if number in (1, 10, 11) else "finished", 1)
    rows = summarise(trials, settings.repeats)
    # The first panel has one pair, seed 0, and the third none.
    assert rows[1]["evaluation/success_rate"]["difference"]["mean"] == pytest.approx(0.2)
    write_table(rows, folder)
    head, _, trca, grpo = (folder.path / "sweep.md").read_text().splitlines()
    assert head.endswith(" | minus first, held out, in points | failed |")
    assert trca.endswith(" | - | 1 |")
    assert grpo.endswith(" | +20.0 ± 127.1 | 2 |")


def test_without_panels_the_interval_is_over_seeds(tmp_path):
    settings = SweepSettings.resolve({**SWEEP, "seeds": [0, 1, 2]}, "mine")
    trials = made(settings, RunFolder.create(tmp_path, "sweep"))
    for trial in trials:
        trial.run.append_metrics({"iteration": 1, "success_rate": trial.seed / 10})
        trial.run.set_status("finished", 1)
    for point in summarise(trials, settings.repeats):
        assert point["success_rate"]["mean"] == pytest.approx(0.1)
        assert point["success_rate"]["half_width"] == pytest.approx(4.3027 * 0.1 / 3**0.5, rel=1e-3)


def test_a_trial_that_is_gone_is_waiting_and_shifts_no_other(tmp_path):
    settings = SweepSettings.resolve({**SWEEP, "seeds": [0, 1]}, "mine")
    folder = RunFolder.create(tmp_path, "sweep")
    for trial in (trials := made(settings, folder)):
        trial.run.set_status("finished", 1)
    shutil.rmtree(trials[1].run.path)
    trials = read_trials(settings, folder)
    assert [trial.state for trial in trials] == ["finished", "waiting", "finished", "finished"]
    trca, grpo = summarise(trials, settings.repeats)
    assert (trca["point"], grpo["point"]) == ({"algorithm": "TRCA"}, {"algorithm": "GRPO"})
    assert (trca["n"], grpo["n"]) == (1, 2)


def test_the_picture_has_every_run_of_equal_points(tmp_path):
    drawn = {"grid": {}, "sample": {"group_size": {"choice": [2, 4]}}, "samples": 6}
    settings = SweepSettings.resolve(SWEEP | drawn | {"set": {}}, "mine")
    trials = made(settings, RunFolder.create(tmp_path, "sweep"))
    for trial in trials:
        trial.run.append_metrics({"iteration": 1, "success_rate": 0.5})
        trial.run.set_status("finished", 1)
    found = curves(trials)
    assert found.keys() == {"group_size=2", "group_size=4"}
    assert sum(map(len, found.values())) == 6


def test_a_mapping_reads_as_words():
    words = point_words([{"budgets": {"evidence": 0.1, "execution": 0.5}}])
    assert words == [{"budgets": "evidence 0.1, execution 0.5"}]


def test_a_number_in_words_has_six_digits():
    words = point_words([{"lr": 0.00012345678, "lambda_": 1.0, "budgets": {"evidence": 2 / 3}}])
    assert words == [{"lr": "0.000123457", "lambda_": "1.0", "budgets": "evidence 0.666667"}]


def test_a_name_that_is_no_sweep_lists_the_shipped_sweeps():
    sweeps = shipped_sweeps()
    assert sweeps["sweeps/rollouts"].startswith("How many rollouts? TRCA, GRPO and GiGPO")
    for name, problem in (
        ("nope", "no sweep 'nope': give the path of a YAML file"),
        ("quickstart", "quickstart is the config of a run: trca train quickstart runs it"),
    ):
        result = CliRunner().invoke(app, ["sweep", name])
        assert result.exit_code == 2, result.output
        output = " ".join(result.output.split())
        assert problem in output
        assert all(f"{each} {sweeps[each]}" in output for each in sweeps)


def test_the_page_on_sweeps_has_the_question_of_each_shipped_sweep():
    page = (Path(__file__).parents[3] / "docs" / "sweeps.md").read_text("utf-8")
    rows = [f"| `{name}` | {question} |" for name, question in shipped_sweeps().items()]
    assert "\n".join(rows) in page


def test_a_job_that_starts_again_resumes_no_run(tmp_path):
    RunFolder.create(tmp_path, "mine").write_config({"algorithm": "TRCA", "seed": 0})
    command = ["sweep", "sweeps/ablations", f"--storage-path={tmp_path}", "--name=mine"]
    result = CliRunner().invoke(app, [*command, "--auto-resume"])
    assert result.exit_code == 2, result.output
    assert "is no sweep: resume a run by trca train --resume mine" in " ".join(
        result.output.split()
    )


def test_a_trial_that_no_node_can_hold_is_printed():
    lines = StringIO()
    with stopping_politely(Console(file=lines, width=1000)):
        logging.getLogger(_InsufficientResourcesManager.__module__).warning("%d CPUs", 9)
    assert lines.getvalue() == "waiting: 9 CPUs\n"


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
    trca, grpo = (settings.trial(point, 0) for point in settings.every_point())
    assert trca.flat()["lambda_"] == 0.5
    assert grpo.run.algorithm == "GRPO"
    assert "lambda_" not in grpo.flat()


def test_what_is_set_holds_for_an_algorithm_with_a_default_of_its_own_too():
    changed = {
        **SWEEP,
        "set": {**SWEEP["set"], "aggregation": "token_mean"},
        "grid": {"algorithm": ["GRPO", "DrGRPO"]},
    }
    settings = SweepSettings.resolve(changed, "mine")
    trials = [settings.trial(point, 0).flat() for point in settings.every_point()]
    assert [each["algorithm"] for each in trials] == ["GRPO", "DrGRPO"]
    assert [each["aggregation"] for each in trials] == ["token_mean", "token_mean"]


SMALL, OTHER = {"env_config.games": "small-31"}, {"env_config.games": "small-32"}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"grid": {"env_config": [{"max_steps": 2}]}, "set": {}, "panels": [SMALL, OTHER]},
            "env_config is in grid and env_config.games in panels: one would replace the other",
        ),
        (
            {"set": {"budgets.evidence": 1.0}, "grid": {"budgets": [{"evidence": 0.1}]}},
            "budgets.evidence is in set and budgets in grid: one would replace the other",
        ),
        (
            {"panels": [{**SMALL, "evaluation_split": "valid_seen"}, OTHER]},
            "panels: evaluation_split is in some and not in others: give it in each",
        ),
        ({"panels": [SMALL, OTHER, SMALL]}, "small-31'} stands twice"),
        (
            {"grid": {"lambda_": [0.2, 0.5, 0.2]}},
            "[0.2, 0.5, 0.2]: a value stands twice",
        ),
        (
            {"grid": {}, "points": [{"lambda_": 0.2}, {"lambda_": 0.2}]},
            "points: {'lambda_': 0.2} stands twice",
        ),
        ({"samples": 5}, "samples is 5 and there is no sample: give more seeds to repeat"),
        ({"sample": {"gamma": {"quniform": [0, 1, 0]}}}, "sample.gamma: quniform of [0, 1, 0]"),
    ],
)
def test_what_would_be_overridden_or_counted_twice_is_refused(changes, words):
    with pytest.raises(ConfigError, match=re.escape(words)):
        SweepSettings.resolve({**SWEEP, **changes}, "mine")


def test_every_point_is_checked_on_every_panel(tmp_path):
    """Two of the four trials cannot be: GRPO compares the rollouts of a group."""
    own = {"set": {k: v for k, v in SWEEP["set"].items() if k != "group_size"}}
    alone, four = {"group_size": 1}, {"group_size": 4}
    for panels in ([alone, four], [four, alone]):
        path = tmp_path / "mine.yaml"
        path.write_text(yaml.safe_dump({**SWEEP, **own, "panels": panels}))
        result = CliRunner().invoke(app, ["sweep", str(path), "--dry-run"])
        assert result.exit_code == 2, result.output
        assert "group_size=1" in " ".join(result.output.split())
    path.write_text(yaml.safe_dump({**SWEEP, **own, "panels": [four, {"group_size": 2}]}))
    result = CliRunner().invoke(app, ["sweep", str(path), "--dry-run"])
    assert "4 trials, 2 side by side: 2 points" in result.output
    assert "; 12 rollouts in all" in result.output  # two rules, of 4 and of 2
