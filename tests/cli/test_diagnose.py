"""`trca diagnose` tells a run's first part from its last, and what looks wrong."""

import json

import pytest

from tests.cli.test_inspect import trca


def test_the_first_and_the_last_part_of_a_run_stand_beside_each_other(recorded_run, tmp_path):
    result = trca("diagnose", recorded_run, "--output", tmp_path)
    assert result.exit_code == 0, result.output
    told = json.loads((tmp_path / "diagnosis.json").read_text())
    assert list(told) == ["iteration 1", "iteration 3", "alarms"]
    part = told["iteration 1"]
    assert (part["rollouts"], part["groups"], part["success_free_groups"]) == (6, 2, 0.0)
    assert part["failure_rate"] == pytest.approx(2 / 3)
    assert sum(part["classes"].values()) == pytest.approx(1.0)
    assert part["classes"]["Other"] == 0.0
    assert part["classes"]["Validity"] > 0.3
    assert part["classes"]["Execution"] > 0.0
    line = next(line for line in result.output.splitlines() if "failed rollouts  " in line)
    assert line.split() == ["failed", "rollouts", "66.7%", "66.7%"]
    assert (tmp_path / "diagnosis.png").stat().st_size > 10_000


def test_the_groups_of_a_file_are_its_tasks(recorded_run, tmp_path):
    path = recorded_run / "rollouts/iteration_000003/train.jsonl"
    one = tmp_path / "evaluation.jsonl"
    text = path.read_text()
    one.write_text(text.replace('"group":1', '"group":0'))
    result = trca("diagnose", one)
    assert result.exit_code == 0, result.output
    assert json.loads((tmp_path / "diagnosis.json").read_text())["all"]["groups"] == 2


def test_what_cannot_be_diagnosed_is_refused_with_the_mend(recorded_run, tmp_path):
    empty = tmp_path / "empty.jsonl"
    empty.write_text("")
    other = tmp_path / "other.jsonl"
    other.write_text((recorded_run / "rollouts/iteration_000001/train.jsonl").read_text())
    plain = tmp_path / "plain.yaml"
    plain.write_text("algorithm: GRPO\nenv: CartPole-v1\n")
    for options, message in (
        ([empty], "no rollout with a step"),
        ([other, "--config=webshop"], "judged by another rubric library"),
        ([recorded_run, "--config=quickstart"], "a run brings its own"),
        ([tmp_path / "nothing.jsonl"], "No such file"),
        (["nothing"], "no run"),
    ):
        result = trca("diagnose", *options)
        assert result.exit_code == 2, result.output
        assert message in " ".join(result.output.split())
