"""``trca new-env``: the package equals the example, works under another name, and trains."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.calls import refused
from trca.algorithms.settings.parameters import TextParameters
from trca.algorithms.settings.sweeps import SweepSettings
from trca.cli.commands.new_env import write_package
from trca.rubric import RubricLibrary
from trca.tune_configs.files import read

EXAMPLE = Path(__file__).parents[3] / "examples" / "key_door"


def files(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_text()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    return write_package("tower_of_ice", tmp_path_factory.mktemp("packages"))


def test_the_example_is_what_is_written(tmp_path):
    assert files(write_package("key_door", tmp_path)) == files(EXAMPLE)


def test_another_name_stands_in_every_place(package):
    written = files(package)
    assert {"tower_of_ice/env.py", "tests/test_tower_of_ice.py", "train.yaml"} <= set(written)
    assert not [path for path, text in written.items() if "key_door" in path + text]
    assert "class TowerOfIce(TextEnv)" in written["tower_of_ice/env.py"]
    library = RubricLibrary.load(package / "tower_of_ice" / "rubric.yaml")
    assert library.environment == "TowerOfIce"


@pytest.mark.slow
def test_its_own_tests_pass(package):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=package, env={**os.environ}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_its_configs_are_whole(package):
    settings = TextParameters.resolve(read(package / "train.yaml"), "train.yaml")
    assert settings.env == f"{package}/tower_of_ice/env.py:TowerOfIce"
    sweep = SweepSettings.resolve(read(str(package / "sweep.yaml")), "sweep", need_data=False)
    assert len(sweep.every_point()) == 2


@pytest.mark.slow
def test_it_trains_at_once(tmp_path, monkeypatch):
    package = write_package("hill_of_glass", tmp_path)
    env = package / "hill_of_glass" / "env.py"
    assert "((0.5, 300),)" in env.read_text()
    assert "model: tiny" in (package / "train.yaml").read_text()
    env.write_text(env.read_text().replace("((0.5, 300),)", "((0.5, 4),)"))
    monkeypatch.chdir(package)
    small = {
        "iterations": 1,
        "tasks_per_iteration": 1,
        "group_size": 2,
        "max_new_tokens": 4,
        "evaluation_tasks": 1,
        "num_env_runners": 0,
        "num_learners": 0,
        "env_config.max_steps": 2,
    }
    changes = [f"--set={key}={value}" for key, value in small.items()]
    command = [sys.executable, "-m", "trca", "train", "train.yaml", *changes]
    done = subprocess.run(
        [*command, f"--storage-path={tmp_path}"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "train" / "curve.png").is_file()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("My-Game", "'My-Game' is not a package name"),
        ("class", "'class' is not a package name"),
        ("none", "'none' is not a package name"),
        ("my_", "'my_' is not a package name"),
        ("facts", "'facts' hides the imported Facts"),
        ("binding", "'binding' hides the imported Binding"),
        ("outcome", "'outcome' hides the imported Outcome"),
        ("numpy", "there is a Python package 'numpy' already"),
        ("taken", "taken exists: name another package"),
    ],
)
def test_a_name_that_cannot_be_is_refused_and_nothing_is_written(
    name, words, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").mkdir()
    assert words in refused("new-env", name)
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]
