"""The index of a file of rollouts equals the result of parsing the JSON."""

import json

import pytest

from tests.cli.view.conftest import ATTACKS
from trca.cli.view import index
from trca.cli.view.index import RolloutIndex, index_of
from trca.records import from_json


def path_of(folder):
    return folder / "rollouts/iteration_000001/train.jsonl"


@pytest.mark.parametrize("which", ["recorded_run", "hostile_run"])
@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
def test_the_ends_of_a_line_tell_what_all_of_it_tells(which, separators, request, monkeypatch):
    lines = path_of(request.getfixturevalue(which)).read_text().splitlines()
    for line in lines:
        record = json.loads(line)
        whole = index._parsed(record)
        with monkeypatch.context() as patch:
            patch.setattr(index, "_parsed", None)  # without parsing
            quick = index._summary(json.dumps(record, separators=separators).encode() + b"\n")
        assert quick == whole


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
