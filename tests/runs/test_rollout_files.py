"""Rollout files: lines of rollouts, and a line for each missing group."""

import json

import pytest

from tests.records.test_records import make_rollout, make_step
from trca.envs import make
from trca.records import read_rollouts
from trca.records.failures import Failure
from trca.runs.rollout_files import agent_operators, judged, write_rollouts


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


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path, rollouts = tmp_path / "train.jsonl", [make_rollout([make_step()])] * 2
    decoded = iter(["a prompt"])
    with pytest.raises(StopIteration):
        write_rollouts(path, rollouts, decode=lambda ids: next(decoded))
    assert not [*tmp_path.iterdir()]
    write_rollouts(path, rollouts[:1], decode=str)
    with pytest.raises(StopIteration):
        write_rollouts(path, rollouts, decode=lambda ids: next(decoded))
    assert len(list(read_rollouts(path))) == 1


def test_judged_rollouts_come_by_iteration_and_have_steps(tmp_path):
    operators = agent_operators("alfworld", {})
    (ids,) = [each.ids for each in operators.values()]
    rollout = make_rollout([make_step()], operators=ids)
    write_rollouts(tmp_path / "a", [rollout, make_rollout()], decode=str)
    [(iteration, read)] = judged({7: tmp_path / "a"}, operators)
    assert (iteration, [len(played) for played in read.values()]) == (7, [1])


def test_the_operators_of_roles_are_those_that_judge_them():
    env = make("alfworld", team="alfworld_planner").unwrapped
    operators_of = agent_operators("alfworld", {"team": "alfworld_planner"})
    assert list(operators_of) == list(env.agents)
    for role, operators in operators_of.items():
        assert operators.ids == env.operators[role].ids
        assert operators.categories.tolist() == env.operators[role].categories.tolist()


def test_a_team_that_the_settings_have_not_is_refused(tmp_path):
    roles = [make_rollout([make_step()], agent_id=name) for name in ("scout", "worker")]
    write_rollouts(tmp_path / "a", roles, decode=str)
    with pytest.raises(ValueError, match=r"rollouts of scout, .* to the team of the rollouts"):
        list(judged({1: tmp_path / "a"}, agent_operators("alfworld", {})))


def test_rollouts_of_another_library_are_refused_with_the_file(tmp_path):
    write_rollouts(tmp_path / "a", [make_rollout([make_step()])], decode=str)
    with pytest.raises(
        ValueError, match=r"a: the rubric library .* name a, or restore the library"
    ):
        list(judged({1: tmp_path / "a"}, agent_operators("alfworld", {}), "name a, or "))
