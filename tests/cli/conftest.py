"""Runs for the commands that read one: recorded, and real."""

import os
import shutil
import subprocess
from dataclasses import replace

import pytest

from tests.cli.calls import done
from tests.cli.commands.test_inspect import played, played_by_team
from tests.cli.commands.test_train import SMALL
from trca.algorithms.credit import bind_credit
from trca.algorithms.settings.parameters import TextParameters
from trca.envs import make
from trca.records import StepBatch, assign_advantages, by_agent, write_rollouts
from trca.runs.folder import RunFolder
from trca.runs.rollout_files import rollout_file
from trca.tune_configs.files import read


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty folder, in which the commands run."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def recorded_run(tmp_path_factory):
    """Two iterations of two groups: the oracle wins, is cut off, and is cut off unjudged."""
    env = make("alfworld")
    settings = TextParameters.resolve(read("quickstart"), "quickstart")
    folder = RunFolder.create(tmp_path_factory.mktemp("runs"), "run")
    folder.write_config(settings.flat())
    rule = bind_credit("trca", settings)
    tasks = iter(env.get_wrapper_attr("task_ids"))
    for iteration in (1, 3):
        rollouts = []
        for group in range(2):
            whole = played(env, next(tasks))
            whole.group = group
            cut = replace(whole, index=1, steps=whole.steps[:-1], won=False, truncated=True)
            unseen = [replace(step, judgments=0 * step.judgments) for step in whole.steps[:-2]]
            rollouts += [whole, cut, replace(cut, index=2, steps=unseen)]
        batch = StepBatch.from_rollouts(rollouts, env.get_wrapper_attr("judge").library.categories)
        assign_advantages(rollouts, rule(batch))
        write_rollouts(rollout_file(folder, "train", iteration), rollouts)
    return folder.path


@pytest.fixture(scope="session")
def recorded_team(tmp_path_factory):
    """An iteration of two groups that a team played: the oracle wins, and is cut off unjudged."""
    env = make("alfworld", team="alfworld_planner").unwrapped
    settings = TextParameters.resolve(read("team"), "team")
    folder = RunFolder.create(tmp_path_factory.mktemp("runs"), "run")
    folder.write_config(settings.flat())
    rule = bind_credit("trca", settings)
    rollouts = []
    for group, task in enumerate(env.task_ids[:2]):
        for whole in played_by_team(env, task):
            whole.group = group
            unseen = [replace(step, judgments=0 * step.judgments) for step in whole.steps]
            rollouts += [whole, replace(whole, index=1, steps=unseen, won=False, truncated=True)]
    for role, own in by_agent(rollouts).items():
        batch = StepBatch.from_rollouts(own, env.operators[role].categories)
        assign_advantages(own, rule(batch))
    write_rollouts(rollout_file(folder, "train", 1), rollouts)
    return folder.path


@pytest.fixture(scope="module")
def runs(cluster, tmp_path_factory):
    """A folder with one finished run, and the output of the run."""
    folder = tmp_path_factory.mktemp("runs")
    return folder, done("train", "quickstart", *SMALL, f"--storage-path={folder}")


@pytest.fixture
def read_only_copy(tmp_path):
    """Copies a run; the folders of the copy are read-only until the test ends, for root too."""
    folders = []

    def copy(run):
        path = shutil.copytree(run, tmp_path / "read-only", symlinks=True)
        folders.extend(folder for folder, _, _ in os.walk(path))
        for folder in folders:
            os.chmod(folder, 0o555)
        if os.access(path, os.W_OK):  # permissions do not restrict root
            done = subprocess.run(["chattr", "+i", *folders], capture_output=True, text=True)
            if done.returncode:
                pytest.skip(f"this file system has no immutable folders: {done.stderr}")
        return path

    yield copy
    subprocess.run(["chattr", "-i", *folders], capture_output=True)
    for folder in folders:
        os.chmod(folder, 0o755)
