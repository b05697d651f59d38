"""`trca compare` pairs two evaluations by task."""

import json
from functools import partial
from math import isnan

import pytest

from tests.cli import calls
from trca.analysis.comparison import pair, read_report

PANEL = {"hash": "ab12", "environment": "trca/ALFWorld-v0", "split": "valid_unseen"}


def outcome(task, won, kind="Heat", seed=0, **measures):
    return {"task_id": task, "task_type": kind, "seed": seed, "won": won, "measures": measures}


def report(*outcomes, panel=PANEL, policy="a policy"):
    tasks = len({each["task_id"] for each in outcomes})
    told = {"policy": policy, "panel": panel, "tasks": tasks, "rows": []}
    return {**told, "outcomes": list(outcomes)}


def wins(text, kind="Heat"):
    return [outcome(f"{kind}-{k}", won == "1", kind) for k, won in enumerate(text)]


trca, done, refused = (partial(call, "compare") for call in calls.ALL)


@pytest.fixture
def written(tmp_path):
    def write(name, told):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(told))
        return path

    return write


def test_tasks_are_paired_and_counted():
    first, second = (
        report(*wins("110000001"), *wins("1", "Pick")),
        report(*wins("011111100"), *wins("1", "Pick")),
    )
    whole, heat, pick = pair(first, second)
    assert (whole.task_type, whole.tasks, whole.better, whole.worse) == ("All", 10, 5, 2)
    assert (whole.first, whole.second, whole.difference) == pytest.approx((0.4, 0.7, 0.3))
    assert whole.low < 0.3 < whole.high
    assert whole.p == pytest.approx(2 * (1 + 7 + 21) / 128)
    assert (heat.task_type, heat.tasks) == ("Heat", 9)
    assert (pick.tasks, pick.difference, pick.p) == (1, 0.0, 1.0)
    assert isnan(pick.low)  # one difference has no interval
    assert isnan(pick.high)


def test_the_pairing_sees_what_two_means_do_not():
    """B wins just where A does not on half of the tasks: the interval is that of differences."""
    alike = pair(report(*wins("10" * 50)), report(*wins("10" * 50)))[0]
    assert isnan(alike.low)
    ahead = pair(report(*wins("10" * 50)), report(*wins("11" * 10 + "10" * 40)))[0]
    assert ahead.difference == pytest.approx(0.1)
    assert 0 < ahead.low < 0.06
    assert 0.14 < ahead.high < 0.2


def test_a_task_counts_once_however_often_it_was_played():
    first = report(*[outcome("a", k == 0, seed=k) for k in range(4)], outcome("b", True))
    second = report(outcome("a", True), *[outcome("b", True, seed=k) for k in range(9)])
    row = pair(first, second)[0]
    assert (row.tasks, row.first, row.second, row.better) == (2, 0.625, 1.0, 1)


def test_other_measures_are_paired_too():
    first = report(outcome("a", True, score=0.5), outcome("b", True, score=0.5))
    second = report(outcome("a", True, score=1.0), outcome("b", True, score=0.25))
    second["outcomes"].append(outcome("a", True, seed=1, score=None))  # it was not finite
    success, score = pair(first, second)
    assert (success.measure, score.measure) == ("success", "score")
    assert (score.difference, score.better, score.worse) == (0.125, 1, 1)


def test_a_metric_named_success_is_compared_in_addition_to_success():
    played = [report(outcome("a", True, success=0.5)) for _ in range(2)]
    rows = {row.measure: row for row in pair(*played)}
    assert (rows["success"].first, rows["measures/success"].first) == (1.0, 0.5)


def test_what_is_missing_is_left_out_and_never_a_zero(written):
    first = written("a.json", report(*wins("11"), outcome("c", None)))
    second = written("b.json", report(*wins("10"), outcome("c", True)))
    row = pair(read_report(str(first)), read_report(str(second)))[0]
    assert (row.tasks, row.first, row.second) == (2, 1.0, 0.5)
    same = written("same.json", json.loads(first.read_text()))
    assert " - " in trca(first, same).output  # no interval where all differences are 0
    assert "(1 episodes missing)" in trca(first, second).output


def test_the_command_tells_both_and_writes_json(written, tmp_path):
    first = written("one/evaluation_x.json", report(*wins("1000"), policy="GRPO"))
    written("two/evaluation_y.json", report(*wins("1110"), policy="TRCA"))
    output = done(first.with_suffix(""), tmp_path / "two", "--output", tmp_path / "out.json")
    assert "A: GRPO\nB: TRCA\n" in output
    assert "+50.0%" in output
    assert json.loads((tmp_path / "out.json").read_text())["rows"][0]["better"] == 2
    lost = refused(first, tmp_path / "two", "--output", tmp_path / "nowhere/out.json")
    assert f"there is no folder {tmp_path / 'nowhere'}: create it first" in lost


def test_what_cannot_be_compared_is_refused_with_the_mend(written, tmp_path):
    good = written("good.json", report(*wins("10")))
    other = written("other.json", report(*wins("10"), panel={**PANEL, "hash": "cd34"}))
    none = written("none.json", report(outcome("a", None)))
    for bad, words in (
        (good, "A and B are the same evaluation"),
        (good.with_suffix(""), "A and B are the same evaluation"),
        (other, "have different panels"),
        (none, "no task has finished episodes in both"),
        (tmp_path / "nothing", "no run and no evaluation"),
        (tmp_path, "name one of its evaluations"),
        (written("list.json", [1]), "list.json is not an evaluation"),
        (written("half.json", {"panel": {}}), "panel.hash: Field required"),
        (written("no_outcomes.json", {**report(), "outcomes": "x"}), "outcomes: Input should be"),
        (
            written("no_measures.json", {**report(), "outcomes": [{"task_id": "a"}]}),
            "outcomes.0.task_type: Field required",
        ),
    ):
        assert words in refused(good, bad)
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    assert "is not an evaluation" in trca(good, broken).output


@pytest.mark.parametrize(("trajectories", "noted"), [(128, 1), (64, 0)])
@pytest.mark.parametrize(
    ("file", "about"),
    [
        ("evaluation.json", {"iteration": 8}),
        ("evaluation_x@last.json", {"selection": {"which": "last", "iteration": 8}}),
    ],
)
def test_runs_of_different_length_are_noted(written, tmp_path, trajectories, noted, file, about):
    for name, count in (("a", 64), ("b", trajectories)):
        written(f"{name}/{file}", {**report(*wins("10")), **about})
        written(f"{name}/metrics.jsonl", {"iteration": 8, "trajectories": count})
    output = done(tmp_path / "a", tmp_path / "b")
    note = f"A has 64 training trajectories and B has {trajectories}"
    assert " ".join(output.split()).count(note) == noted
