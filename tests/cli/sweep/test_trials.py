"""A trial of Ray Tune is a run: each command takes its directory."""

import json
import shutil
import sys

import pytest

from tests.cli.calls import done
from tests.cli.commands.test_train import figures
from tests.cli.sweep.conftest import kill_once, succeed
from trca.algorithms.learner.group import LearnersLostError
from trca.cli.sweep.trial import SweepTrial
from trca.common.json_lines import read_lines
from trca.runs.folder import RunFolder

TUNED = """
import sys
from ray import tune
from trca import TRCAConfig

folder, name, command, *lambdas = sys.argv[1:]
config = TRCAConfig.from_preset("quickstart").update_from_dict(
    {
        "model": "shrunk:Qwen/Qwen2.5-1.5B-Instruct",
        "iterations": 3,
        "tasks_per_iteration": 2,
        "group_size": 2,
        "env_config": {"games": "small", "max_steps": 3},
        "max_new_tokens": 6,
        "max_prompt_tokens": 160,
        "minibatch_size": 8,
        "train_malformed": True,
        "evaluation_tasks": 3,
        "evaluation_interval": 2,
        "evaluation_split": "valid_seen",
        "num_env_runners": 0,
        "num_learners": 0,
        "lambda_": tune.grid_search([float(each) for each in lambdas]),
    }
)
run_config = tune.RunConfig(storage_path=folder, name=name, verbose=0)
if command == "start":
    tuner = tune.Tuner(
        "TRCA",
        param_space=config,
        run_config=run_config,
        tune_config=tune.TuneConfig(
            trial_dirname_creator=lambda trial: f"lambda_{trial.config['lambda_']}"
        ),
    )
else:
    tuner = tune.Tuner.restore(f"{folder}/{name}", "TRCA")
results = tuner.fit()
assert not results.errors, results.errors
print(sorted(result.config["lambda_"] for result in results))
print(sorted(result.metrics["training_iteration"] for result in results))
"""


def tuned(folder, name, command, *lambdas):
    return [sys.executable, "-c", TUNED, str(folder), name, command, *map(str, lambdas)]


@pytest.fixture(scope="module")
def experiment(tmp_path_factory):
    """The folder and the output of an experiment with two trials."""
    folder = tmp_path_factory.mktemp("results")
    printed = succeed(tuned(folder, "whole", "start", 0.2, 0.8))
    return folder / "whole", printed


@pytest.fixture(scope="module")
def trial(experiment):
    return experiment[0] / "lambda_0.8"


@pytest.mark.slow
def test_a_trial_ends_after_its_iterations_and_its_directory_is_a_run_folder(experiment, trial):
    assert experiment[1].splitlines()[-2:] == ["[0.2, 0.8]", "[3, 3]"]
    run = RunFolder.open(trial)
    assert run.status()["state"] == "finished"
    assert run.read_config()["lambda_"] == 0.8
    assert [row["trajectories"] for row in run.metrics()] == [4, 8, 12]
    assert run.checkpoint_iteration() == 3
    assert len(json.loads((trial / "panels.json").read_text())["train"]["hash"]) == 16
    assert len(list(trial.glob("rollouts/*/eval.parquet"))) == 2
    assert (trial / "curve.png").stat().st_size > 1000
    assert (trial / "result.json").exists(), "Ray Tune's files are missing"


@pytest.mark.slow
def test_each_command_takes_a_trial(trial, experiment, tmp_path):
    other = experiment[0] / "lambda_0.2"
    assert "iteration" in done("inspect", trial, "--iteration=3")
    done("view", trial, "--export", tmp_path / "view.html")
    assert (tmp_path / "view.html").stat().st_size > 1000
    assert "transitions" in done("diagnose", trial)
    done("recredit", trial, "--set", "lambda_=0.1")
    done("report", trial, other, "--by=lambda_", "--no-paper", f"--output={tmp_path}/report")
    assert "lambda_=0.2" in (tmp_path / "report" / "report.md").read_text()
    assert "3 tasks in both" in done("compare", trial, other)
    assert "2 tasks" in done("evaluate", f"{trial}@last", "--tasks=2")
    done("export", trial, "--to", tmp_path / "policy")
    assert (tmp_path / "policy" / "config.json").exists()


@pytest.mark.slow
def test_a_trial_is_continued_by_trca_train(trial, tmp_path):
    copy = shutil.copytree(trial, tmp_path / "mine", symlinks=True)
    command = [sys.executable, "-m", "trca", "train", "--resume", str(copy)]
    assert "What next:" in succeed([*command, "--iterations=4"])
    assert figures(copy)[:3] == figures(trial)
    assert RunFolder(copy).checkpoint_iteration() == 4


@pytest.mark.slow
def test_a_killed_experiment_is_restored_by_tune_without_a_gap(trial, tmp_path):
    killed = tmp_path / "killed" / "lambda_0.8"
    links = killed / "checkpoints" / "last"
    kill_once(tuned(tmp_path, "killed", "start", 0.8), links.exists)
    assert RunFolder(killed).last_iteration() in (1, 2)
    assert succeed(tuned(tmp_path, "killed", "restore")).splitlines()[-1] == "[3]"
    assert figures(killed) == figures(trial)
    (driver,) = read_lines(RunFolder(killed).failures)
    assert driver["action"].startswith("resumed after iteration")


def test_a_trial_whose_learners_are_lost_is_left_to_tune(tmp_path):
    def losing(error):
        raise error
        yield

    trial = object.__new__(SweepTrial)
    trial._last, trial._rows, trial._run = 3, [], RunFolder.create(tmp_path, "trial")
    trial._every = losing(LearnersLostError("a learner was lost with its node"))
    with pytest.raises(LearnersLostError):
        trial.step()
    trial._every = losing(ValueError("mine"))
    assert trial.step()["error_words"] == "mine"
    assert trial._run.status()["message"] == "mine"
