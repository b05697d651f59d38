"""Rollout files: lines of rollouts, and a line for each missing group."""

import pytest

from tests.records.test_records import make_rollout, make_step
from trca.envs import make
from trca.records import write_rollouts
from trca.runs.rollout_files import agent_operators, judged


def test_judged_rollouts_come_by_iteration_and_have_steps(tmp_path):
    operators = agent_operators("alfworld", {})
    (ids,) = [each.ids for each in operators.values()]
    rollout = make_rollout([make_step()], operators=ids)
    write_rollouts(tmp_path / "a.parquet", [rollout, make_rollout()])
    [(iteration, read)] = judged({7: tmp_path / "a.parquet"}, operators)
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
    write_rollouts(tmp_path / "a.parquet", roles)
    with pytest.raises(ValueError, match=r"rollouts of scout, .* to the team of the rollouts"):
        list(judged({1: tmp_path / "a.parquet"}, agent_operators("alfworld", {})))


def test_rollouts_of_another_library_are_refused_with_the_file(tmp_path):
    write_rollouts(tmp_path / "a.parquet", [make_rollout([make_step()])])
    with pytest.raises(
        ValueError, match=r"a.parquet: the rubric library .* name a, or restore the library"
    ):
        list(judged({1: tmp_path / "a.parquet"}, agent_operators("alfworld", {}), "name a, or "))
