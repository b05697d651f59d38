"""The data of the page leads to the same rollout in the terminal."""

import json
import shlex
import shutil

import pytest

from tests.cli.commands.test_inspect import trca
from trca.cli.view.runs import RecordedRun, every_group
from trca.runs.folder import RunFolder


@pytest.fixture
def mixed_team(recorded_team, tmp_path, monkeypatch):
    """A run in ``outputs``: training rollouts in mixed order, with missing rollouts between."""
    monkeypatch.chdir(tmp_path)
    folder = shutil.copytree(recorded_team, tmp_path / "outputs" / "team")
    train = folder / "rollouts/iteration_000001/train.jsonl"
    shutil.copy(train, train.with_name("eval.jsonl"))
    lines = train.read_text().splitlines()
    missing = json.dumps({"missing": 2, "task_id": "t", "group": 1, "reason": ""})
    train.write_text("\n".join([missing, *lines[::-2], missing, *lines[::2]]) + "\n")
    return RecordedRun(RunFolder(folder))


@pytest.mark.parametrize("kind", ["train", "eval"])
def test_the_inspect_command_of_a_rollout_shows_this_rollout(mixed_team, kind):
    outputs = set()
    for group in every_group(mixed_team, kind, 1):
        for rollout in group["rollouts"]:
            program, *arguments = shlex.split(rollout["inspect"])
            assert program == "trca"
            shown = trca(*arguments)
            assert shown.exit_code == 0, shown.output
            assert group["task"] in shown.output
            actions = [line[2:] for line in shown.output.splitlines() if line.startswith("> ")]
            assert actions == [step["action"] for step in rollout["steps"]]
            assert ("\nsuccess after" in shown.output) == rollout["won"]
            outputs.add(shown.output)
    assert len(outputs) == 8  # two groups of two episodes of two roles
