"""Explanations: the true clauses of a condition and their values."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.rubric.test_judge import Facts as JudgeFacts
from tests.rubric.test_judge import Task as JudgeTask
from tests.rubric.test_judge import library
from trca.rubric import Condition, Judge


@dataclass(frozen=True)
class Facts:
    verb: str = ""
    accepted: bool = False
    kinds: tuple[str, ...] = ()
    count: int = 0


@dataclass(frozen=True)
class Task:
    target: str = ""


TAKE = Facts(verb="take", accepted=True, kinds=("mug", "pen"), count=2)


@pytest.mark.parametrize(
    ("condition", "clauses"),
    [
        ("facts.accepted", ["facts.accepted"]),
        ("true", ["true"]),
        ("facts.accepted && facts.verb == 'take'", ["facts.accepted", "facts.verb == 'take'"]),
        ("facts.verb == 'move' || facts.count == 2", ["facts.count == 2"]),
        ("facts.accepted || facts.count == 2", ["facts.accepted", "facts.count == 2"]),
        (
            "facts.accepted && (facts.verb == 'move' || (facts.count > 1 && facts.count < 3))",
            ["facts.accepted", "facts.count > 1", "facts.count < 3"],
        ),
        ("facts.accepted && facts.count > 5 || size(facts.kinds) == 2", ["size(facts.kinds) == 2"]),
        ("(facts.accepted) && (facts.count == 2)", ["facts.accepted", "facts.count == 2"]),
        ("((facts.accepted && facts.count == 2))", ["facts.accepted", "facts.count == 2"]),
        ("!(facts.count > 5 && facts.accepted)", ["!(facts.count > 5 && facts.accepted)"]),
        (
            "facts.verb != '(' && facts.verb != ' && '",
            ["facts.verb != '('", "facts.verb != ' && '"],
        ),
        ("facts.verb == 'move'", []),
    ],
)
def test_the_clauses_that_made_a_condition_true_are_given_and_no_others(condition, clauses):
    explained = Condition.parse(condition).explain(TAKE, Task("mug"))
    assert [clause.text for clause in explained] == clauses


def test_a_clause_says_which_values_it_read():
    (first, second) = Condition.parse("task.target in facts.kinds && facts.accepted").explain(
        TAKE, Task("mug")
    )
    assert first.values == {"facts.kinds": ("mug", "pen"), "task.target": "mug"}
    assert second.values == {"facts.accepted": True}


ATOMS = ["facts.accepted", "facts.verb == 'take'", "facts.count > 1", "!facts.accepted"]
CONDITIONS = st.recursive(
    st.sampled_from(ATOMS),
    lambda inner: st.tuples(inner, st.sampled_from(["&&", "||"]), inner).map(
        lambda parts: f"({parts[0]}) {parts[1]} ({parts[2]})"
    ),
    max_leaves=6,
)


@given(CONDITIONS, st.booleans(), st.sampled_from(["take", "move"]), st.integers(0, 3))
def test_every_clause_is_true_on_its_own_and_a_true_condition_always_has_one(
    text, accepted, verb, count
):
    facts = Facts(verb=verb, accepted=accepted, count=count)
    condition = Condition.parse(text)
    clauses = condition.explain(facts, Task())
    assert bool(clauses) == condition.evaluate(facts, Task())
    assert all(Condition.parse(clause.text).evaluate(facts, Task()) for clause in clauses)


def test_a_judge_explains_exactly_the_operators_that_fire():
    judge = Judge(library(), JudgeFacts, JudgeTask)
    task, facts = JudgeTask("cup"), JudgeFacts(accepted=True, new=("pen", "cup"), count=1)
    reasons = judge.explain(task, facts)
    fired = [
        name for name, flag in zip(judge.library.ids, judge.judge(task, facts), strict=True) if flag
    ]
    assert list(reasons) == fired
    assert reasons["evidence_1"][0].text == "task.target in facts.new"


def test_what_cannot_be_evaluated_has_no_reason():
    judge = Judge(library(), JudgeFacts, JudgeTask)
    assert "evidence_1" not in judge.explain(JudgeTask("cup"), JudgeFacts(new=None))
