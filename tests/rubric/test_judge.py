"""The judge: every operator on every transition, deterministic, and 0 on errors."""

import json
from dataclasses import dataclass, replace

import numpy as np
import pytest

from trca.rubric import CATEGORIES, Judge, RubricError, RubricLibrary


@dataclass(frozen=True)
class Facts:
    accepted: bool = False
    new: tuple[str, ...] = ()
    count: int = 0


@dataclass(frozen=True)
class Task:
    target: str = ""


CONDITIONS = (
    ("facts.accepted", ["accepted"], []),
    ("task.target in facts.new", ["new"], ["target"]),
    ("size(facts.new) > facts.count", ["new", "count"], []),
    ("facts.count == 2", ["count"], []),
    ("!facts.accepted", ["accepted"], []),
)


def library(first="facts.accepted"):
    operators = [
        {
            "id": f"{category}_{number}",
            "category": category,
            "description": "x",
            "reads": reads,
            "binds": binds,
            "condition": first if number == 0 and category == "evidence" else condition,
        }
        for category in CATEGORIES
        for number, (condition, reads, binds) in enumerate(CONDITIONS)
    ]
    return RubricLibrary.parse(
        json.dumps({"environment": "any", "operators": operators}), "any.yaml"
    )


def test_each_operator_judges_facts_and_binding():
    judge = Judge(library(), Facts, Task)
    judged = judge.judge(Task("cup"), Facts(accepted=True, new=("pen", "cup"), count=1))
    assert judged.dtype == np.uint8
    assert judged.tolist() == [1, 1, 1, 0, 0] * 3
    assert judge.judge(Task("mug"), Facts(new=("pen", "cup"), count=2)).tolist() == [
        *[0, 0, 0, 1, 1] * 3
    ]


def test_the_same_transition_is_judged_the_same_whatever_came_before():
    rng = np.random.default_rng(0)
    used = Judge(library(), Facts, Task)
    for _ in range(100):
        facts = Facts(bool(rng.integers(2)), ("cup", "pen")[: rng.integers(3)], rng.integers(3))
        facts = replace(facts, count=int(facts.count))
        task = Task(str(rng.choice(["cup", "pen"])))
        fresh = Judge(library(), Facts, Task)
        np.testing.assert_array_equal(used.judge(task, facts), fresh.judge(task, facts))
    assert not used.errors


def test_an_operator_that_cannot_be_evaluated_is_inactive_counted_and_told(caplog):
    judge = Judge(library(), Facts, Task)
    odd = Facts(accepted=True, new=None, count=1)
    assert judge.judge(Task("cup"), odd).tolist() == [1, 0, 0, 0, 0] * 3
    warned = [r.getMessage() for r in caplog.records if "'evidence_1'" in r.getMessage()]
    judge.judge(Task("pen"), odd)
    assert len(warned) == 1
    assert "counts as 0" in warned[0]
    assert judge.errors["evidence_1"] == 2
    assert judge.errors["evidence_0"] == 0


def test_a_list_in_the_facts_is_named_with_its_operator():
    judge = Judge(library(), Facts, Task)
    with pytest.raises(TypeError, match=r"operator 'evidence_\d' reads Facts: .*use tuples"):
        judge.judge(Task("cup"), Facts(new=["cup"]))


def test_judgments_cannot_be_changed_by_a_caller():
    judge = Judge(library(), Facts, Task)
    with pytest.raises(ValueError, match="read-only"):
        judge.judge(Task(), Facts())[0] = 1


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("facts.accepted == 'yes'", "a truth value cannot be compared with a string"),
        ("facts.accepted == 1", "cannot be compared"),
    ],
)
def test_a_condition_that_does_not_fit_the_records_is_refused(condition, message):
    with pytest.raises(RubricError, match=rf"any.yaml: operator 'evidence_0': .*{message}"):
        Judge(library(condition), Facts, Task)


def test_a_name_the_records_do_not_have_lists_those_they_have():
    @dataclass(frozen=True)
    class Fewer:
        accepted: bool = False
        count: int = 0

    with pytest.raises(RubricError, match=r"no 'facts\.new': .*facts\.accepted"):
        Judge(library(), Fewer, Task)
