"""Runs of the toy environment, recorded in a folder without the command."""

import json

import pytest
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem
from ray import tune

from tests import toy
from trca.algorithms import ALGORITHMS, TRCA, TRCAConfig
from trca.algorithms.base.recorder import flatten
from trca.algorithms.settings.parameters import TextParameters
from trca.runs.folder import RunFolder
from trca.tune_configs.files import ConfigError, read, shipped

ENDS_ITS_PROCESS = """
import os
from pathlib import Path

calls = []


def ends(batch):
    calls.append(1)
    mark = Path(__file__).with_name("mark")
    if len(calls) == 4 and not mark.exists():
        mark.touch()
        os._exit(1)
    return 0 * batch.reward
"""
PRESETS = [name for name in shipped() if not name.startswith("sweeps/")]


@pytest.mark.parametrize("preset", PRESETS)
def test_the_settings_of_a_config_are_those_that_made_it(preset):
    settings = TextParameters.resolve(read(preset), preset, need_data=False)
    assert settings.algorithm_config().settings == settings


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_each_setting_keeps_its_name_in_a_dictionary(algorithm):
    config_class = ALGORITHMS[algorithm].config_class
    config = config_class().environment("trca/ALFWorld-v0")
    settings = config.to_dict()
    assert settings.keys() >= config.parameters_class.model_fields.keys()
    again = config_class().update_from_dict(settings)
    assert again.settings == config.copy().settings == config.settings


def test_a_class_and_objects_become_text():
    config = TRCAConfig().environment(toy.Rooms, env_config={"where": object, "sizes": (1, 2)})
    settings = config.settings
    assert settings.env == "tests.toy:Rooms"
    assert settings.flat()["env_config"] == {"where": str(object), "sizes": [1, 2]}


def test_a_result_becomes_one_row_of_numbers():
    result = {
        "success_rate": 0.5,
        "panel_hash": "abc",
        "timing": {"world": 1, "credit": float("nan")},
        "evaluation": {"task_types": {"Heat": {"n": 3}}, "panel_hash": "abc"},
        "config": {"lr": 1e-3},
        "timers": {"sync": 1.0},
        "done": False,
    }
    assert flatten(result) == {
        "success_rate": 0.5,
        "timing/world": 1.0,
        "evaluation/task_types/Heat/n": 3.0,
    }


def test_an_algorithm_is_recorded_in_a_folder_and_continues_in_it(make_config, cluster, tmp_path):
    folder = tmp_path / "mine"
    settings = {"iterations": 3, "evaluation_interval": 2, "tasks_per_iteration": 1}
    config = make_config(**settings).reporting(run_folder=folder)
    algorithm = config.build_algo()
    assert not algorithm.train()["done"]
    algorithm.train()
    with pytest.raises(ConfigError, match=r"holds a run with lr: 0.001, not 0\.1"):
        config.copy(copy_frozen=False).training(lr=0.1).build_algo()
    algorithm.stop()
    run = RunFolder.open(folder)
    assert run.status()["state"] == "interrupted"
    assert [("evaluation/success_rate" in row) for row in run.metrics()] == [False, True]
    run.append_metrics({"iteration": 3})  # a kill came before the checkpoint

    again = config.build_algo()
    assert again.iteration == 2
    result = again.train()
    assert result["done"]
    assert result["evaluation"]["n"] == 5
    again.stop()
    rows = run.metrics()
    assert [row["iteration"] for row in rows] == [1, 2, 3]
    assert rows[2]["trajectories"] == 12
    assert rows[2]["evaluation/n"] == 5
    assert run.status()["state"] == "finished"
    assert json.loads((folder / "evaluation.json").read_text())["iteration"] == 3
    assert run.checkpoint_iteration() == 3
    assert len(list(folder.glob("rollouts/*/train.parquet"))) == 3

    ended = config.build_algo()
    result = ended.train()
    assert json.dumps(result["training_iteration"]) == "3"
    assert result["done"]
    assert result["time_this_iter_s"] == 0  # Ray Tune adds the times of its results
    assert result["success_rate"] == rows[2]["success_rate"]
    ended.stop()

    copy = TRCA.from_checkpoint(run.checkpoint())
    assert copy.recorder.run is None
    assert copy.train()["training_iteration"] == 4
    copy.stop()
    assert run.metrics() == rows


def test_an_iteration_after_a_restore_replaces_its_record(build, make_config, cluster, tmp_path):
    config = make_config(iterations=3, tasks_per_iteration=1)
    config.reporting(run_folder=tmp_path / "mine")
    algorithm = build(config)
    algorithm.train()
    first = algorithm.save_to_path(tmp_path / "checkpoint")
    algorithm.train()
    run = RunFolder.open(tmp_path / "mine")
    before = run.metrics()
    algorithm.restore_from_path(first)
    algorithm.train()
    assert [row["iteration"] for row in run.metrics()] == [1, 2]
    for name in ("trajectories", "success_rate", "grad_norm"):
        assert run.metrics()[1][name] == before[1][name]


def test_an_error_is_recorded(build, make_config, cluster, tmp_path):
    rule = tmp_path / "rules.py"
    rule.write_text("def bad(batch):\n    raise ValueError('no credit today')\n")
    config = make_config(credit=f"{rule}:bad").reporting(run_folder=tmp_path / "mine")
    algorithm = build(config)
    with pytest.raises(ValueError, match="no credit today"):
        algorithm.train()
    run = RunFolder.open(tmp_path / "mine")
    assert run.status()["state"] == "failed"
    assert run.status()["message"].startswith("no credit today (in credit rule ")
    assert run.read_config()["credit"] == f"{tmp_path}/mine/files/rules.py:bad"


@pytest.mark.slow
def test_a_trial_on_another_file_system_is_stored_there(make_config, cluster, tmp_path):
    files = SubTreeFileSystem(str(tmp_path), LocalFileSystem())
    run_config = tune.RunConfig(
        name="mine",
        storage_path="bucket",
        storage_filesystem=files,
        checkpoint_config=tune.CheckpointConfig(checkpoint_frequency=1),
        verbose=0,
    )
    space = make_config(iterations=2)
    [result] = tune.Tuner("TRCA", param_space=space, run_config=run_config).fit()
    assert result.error is None
    trial = tmp_path / result.path
    assert len(list(trial.glob("checkpoint_*"))) == 2, "Ray Tune's own checkpoints are gone"
    assert len((trial / "result.json").read_text().splitlines()) == 2
    run = RunFolder.open(f"file://{trial}")
    assert [row["iteration"] for row in run.metrics()] == [1, 2]
    assert run.checkpoint_iteration() == 2
    assert run.status()["state"] == "finished"
    assert (run.path / "curve.png").exists()


@pytest.mark.slow
def test_tune_s_own_checkpoint_is_continued_where_tune_loads_one(make_config, cluster, tmp_path):
    rule = tmp_path / "rules.py"
    rule.write_text(ENDS_ITS_PROCESS)
    run_config = tune.RunConfig(
        storage_path=str(tmp_path),
        checkpoint_config=tune.CheckpointConfig(checkpoint_frequency=2),
        failure_config=tune.FailureConfig(max_failures=1),
        verbose=0,
    )
    space = make_config(iterations=4, credit=f"{rule}:ends", evaluation_interval=4)
    [result] = tune.Tuner("TRCA", param_space=space, run_config=run_config).fit()
    assert result.error is None
    run = RunFolder.open(result.path)
    assert [row["iteration"] for row in run.metrics()] == [1, 2, 3, 4]
    (driver,) = [json.loads(line) for line in run.failures.read_text().splitlines()]
    assert driver["reason"] == "it ended after iteration 3 without writing its status"
