"""Rollout files: lines that read back, and a line for what is missing."""

import json

from trca.algorithms.records import read_rollouts
from trca.algorithms.rollout import Failure
from trca.cli.rollout_files import write_rollouts


def test_an_iteration_without_a_rollout_leaves_its_reasons(tmp_path):
    failure = Failure(3, "heat-egg-3", 8, "ValueError: the prompt is too long")
    path = tmp_path / "train.jsonl"
    write_rollouts(path, [], decode=str, failures=[failure])
    assert [json.loads(line) for line in path.read_text().splitlines()] == [
        {
            "missing": 8,
            "task_id": "heat-egg-3",
            "group": 3,
            "reason": "ValueError: the prompt is too long",
        }
    ]
    assert list(read_rollouts(path)) == []
