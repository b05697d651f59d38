"""Rollout files: lines that read back, and a line for what is missing."""

import json

import pytest

from tests.algorithms.test_records import make_rollout, make_step
from trca.algorithms.records import read_rollouts
from trca.algorithms.rollout import Failure
from trca.cli.rollout_files import judged, load_library, write_rollouts


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


def test_judged_rollouts_come_by_iteration_and_have_steps(tmp_path):
    library = load_library("alfworld", {})
    rollout = make_rollout([make_step()], operators=library.ids)
    write_rollouts(tmp_path / "a", [rollout, make_rollout()], decode=str)
    [(iteration, read)] = judged({7: tmp_path / "a"}, library, "diagnose")
    assert (iteration, len(read)) == (7, 1)


def test_a_team_is_refused_as_one_before_its_operators_are_compared(tmp_path):
    roles = [make_rollout([make_step()], agent_id=name) for name in ("scout", "worker")]
    write_rollouts(tmp_path / "a", roles, decode=str)
    with pytest.raises(ValueError, match="diagnose reads the rollouts of one agent, not of scout"):
        list(judged({1: tmp_path / "a"}, None, "diagnose"))


def test_rollouts_of_another_library_are_refused_with_the_file(tmp_path):
    write_rollouts(tmp_path / "a", [make_rollout([make_step()])], decode=str)
    with pytest.raises(ValueError, match=r"a: judged by another .* name a, or put the library"):
        list(judged({1: tmp_path / "a"}, None, "diagnose", "name a, or "))
