"""The index of a file of rollouts equals the result of parsing the JSON."""

import json
from dataclasses import fields

import pytest

from tests.cli.view.conftest import ATTACKS
from trca.cli.view.index import RolloutIndex, index_of
from trca.records import Rollout, Step, from_json, read_rollouts, to_json


def path_of(folder):
    return folder / "rollouts/iteration_000001/train.jsonl"


@pytest.mark.parametrize("which", ["recorded_run", "hostile_run"])
def test_a_summary_has_the_numbers_of_the_rollout(which, request):
    path = path_of(request.getfixturevalue(which))
    index = RolloutIndex(path)
    summaries = [summary for group in index.groups for summary in group["rollouts"]]
    for rollout, summary in zip(read_rollouts(path), summaries, strict=True):
        assert (summary["won"], summary["score"]) == (rollout.won, rollout.score)
        assert summary["steps"] == len(rollout.steps)
        assert summary["foundational"] == sum(step.foundational for step in rollout.steps)
        assert summary["breakthrough"] == sum(step.breakthrough for step in rollout.steps)
        fired = {rollout.operators[k] for s in rollout.steps for k in s.judgments.nonzero()[0]}
        assert {index.operators[place] for place in summary["fired"]} == fired


NAMES = sorted({f.name for part in (Rollout, Step) for f in fields(part)} | {"missing"})


def test_measures_and_facts_may_have_any_name(recorded_run, tmp_path):
    path = path_of(recorded_run)
    step = {"judgments": [1, 1], "parsed": True, "accepted": True}
    mimic = {**step, "foundational": 9.0, "breakthrough": 9.0, "steps": [step]}
    values = [1.0, "text", '"steps":[{"judgments": [1], "parsed": true', [1, 0], mimic]
    for value in values:
        rollouts = list(read_rollouts(path))
        for rollout in rollouts:
            rollout.measures = dict.fromkeys(NAMES, value)
            for step in rollout.steps:
                step.facts.update(dict.fromkeys(NAMES, value), **mimic)
        named = tmp_path / "train.jsonl"
        named.write_text("".join(to_json(rollout) + "\n" for rollout in rollouts))
        assert RolloutIndex(named).groups == RolloutIndex(path).groups


def test_keys_in_another_order_are_read_too(recorded_run, tmp_path):
    records = map(json.loads, path_of(recorded_run).read_text().splitlines())
    sorted_keys = "".join(json.dumps(record, sort_keys=True) + "\n" for record in records)
    (tmp_path / "train.jsonl").write_text(sorted_keys)
    found = RolloutIndex(tmp_path / "train.jsonl")
    assert found.groups == RolloutIndex(path_of(recorded_run)).groups


def test_a_group_gives_its_lines_back(recorded_run):
    found = RolloutIndex(path_of(recorded_run))
    assert [len(group["rollouts"]) for group in found.groups] == [3, 3]
    assert [group["rollouts"][0]["won"] for group in found.groups] == [True, True]
    rollouts = [from_json(line) for line in found.lines(1)]
    assert [(r.group, r.index) for r in rollouts] == [(1, 0), (1, 1), (1, 2)]
    summary = found.groups[1]["rollouts"][0]
    assert summary["steps"] == len(rollouts[0].steps)
    fired = {k for step in rollouts[0].steps for k in step.judgments.nonzero()[0]}
    names = {found.operators[place] for place in summary["fired"]}
    assert names == {rollouts[0].operators[k] for k in fired}


def test_missing_rollouts_count_in_their_group(recorded_run, tmp_path):
    first = path_of(recorded_run).read_text().splitlines()[0]
    missing = json.dumps({"missing": 2, "task_id": "t", "group": 5, "reason": ATTACKS[0]})
    path = tmp_path / "train.jsonl"
    path.write_text(f"{missing}\n{first}\n")
    gone, there = RolloutIndex(path).groups
    assert (gone["task"], gone["missing"], gone["rollouts"]) == ("t", 2, [])
    assert (there["missing"], len(there["rollouts"])) == (0, 1)


def test_rollouts_have_their_numbers_in_the_file_without_missing_rollouts(recorded_run, tmp_path):
    lines = path_of(recorded_run).read_text().splitlines()
    missing = json.dumps({"missing": 2, "task_id": "t", "group": 1, "reason": ""})
    path = tmp_path / "train.jsonl"
    path.write_text("\n".join([lines[3], missing, lines[0], lines[4], missing, lines[1]]) + "\n")
    found = RolloutIndex(path)
    assert (found.numbers(1), found.numbers(0)) == ([0, 2], [1, 3])
    for group, there in ((1, [lines[3], lines[4]]), (0, [lines[0], lines[1]])):
        assert [line.rstrip("\n") for line in found.lines(group)] == there


@pytest.mark.parametrize("line", ["{", "[]", "3", '{"steps": []}'])
def test_a_line_that_is_no_rollout_is_named(line, tmp_path):
    path = tmp_path / "train.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(ValueError, match=r"train\.jsonl, line 1: not a rollout"):
        RolloutIndex(path)


def test_a_file_that_changes_is_read_again(recorded_run, tmp_path):
    lines = path_of(recorded_run).read_text().splitlines(keepends=True)
    path = tmp_path / "train.jsonl"
    path.write_text(lines[0])
    first = index_of(path)
    assert index_of(path) is first
    path.write_text("".join(lines))
    assert len(index_of(path).groups) == 2
