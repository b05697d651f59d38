"""The language of conditions: valid and invalid expressions, values and their errors."""

import contextlib
import inspect
import sys
from dataclasses import dataclass, make_dataclass
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trca.rubric.conditions import MAX_DEPTH, MAX_LENGTH, Condition, RubricError, field_terms


@dataclass(frozen=True)
class Facts:
    accepted: bool = False
    count: int = 0
    price: float = 0.0
    verb: Literal["", "take", "move"] = ""
    kinds: tuple[str, ...] = ()
    states: tuple[Literal["hot", "cool"], ...] = ()


@dataclass(frozen=True)
class Task:
    target: str = ""
    limit: float = 0.0


TERMS = field_terms("facts", Facts) | field_terms("task", Task)


@pytest.mark.parametrize(
    ("text", "reads", "binds"),
    [
        ("facts.accepted", {"accepted"}, set()),
        ("task.target in facts.kinds", {"kinds"}, {"target"}),
        ("!facts.accepted && (facts.count > 1 || facts.verb != 'take')", None, set()),
        ("facts.price <= task.limit", {"price"}, {"limit"}),
        ("facts.price < 10.5", {"price"}, set()),
        ("size(facts.kinds) == 2", {"kinds"}, set()),
        ("facts.verb in ['take', \"move\"]", {"verb"}, set()),
        ("'hot' in facts.states", {"states"}, set()),
        ("true", set(), set()),
    ],
)
def test_says_which_names_a_condition_uses(text, reads, binds):
    condition = Condition.parse(text, TERMS)
    assert condition.reads == ({"accepted", "count", "verb"} if reads is None else reads)
    assert condition.binds == binds


def test_a_name_inside_a_string_is_not_a_name():
    assert Condition.parse("task.target == 'facts.verb'", TERMS).reads == frozenset()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("facts.acepted", "did you mean 'facts.accepted'"),
        ("task.accepted", "there is no 'task.accepted'"),
        ("facts.count", "the condition is a whole number, not a truth value"),
        ("facts.verb == true", "a string cannot be compared with a truth value"),
        ("facts.price > 1", "a number cannot be compared with a whole number"),
        ("facts.verb < 'take'", "has no order"),
        ("facts.kinds == facts.kinds", "use 'in' or size"),
        ("task.target in facts.verb", "the right side of 'in' is a string"),
        ("facts.count && facts.accepted", "the left side of && is a whole number"),
        ("!facts.count", "the operand of !"),
        ("size(facts.verb) > 1", "the argument of size\\(\\)"),
        ("facts.verb == 'tak'", "did you mean 'take'"),
        ("'warm' in facts.states", "never has the value 'warm'"),
        ("facts.verb in ['take', 'drop']", "never has the value 'drop'"),
    ],
)
def test_names_and_types_are_checked_against_the_records(text, message):
    with pytest.raises(RubricError, match=message):
        Condition.parse(text, TERMS)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "facts",
        "facts.kinds.all(k, k == 'x')",
        "facts.kinds.map(k, facts.kinds.map(j, j)).size() > 0",
        "facts.verb.matches('(a+)+$')",
        "facts.verb.startsWith('t')",
        "facts['accepted']",
        "facts.kinds[0] == 'x'",
        "1 / 0 == 1",
        "facts.count + 1 > 0",
        "accepted",
        "__import__('os').system('true') == 0",
        "facts.__class__ == task.__class__.x",
        "has(facts.accepted)",
        "facts.accepted ? true : false",
        "facts.accepted; facts.accepted",
        "r'\\d' == task.target",
        "'''a''' == task.target",
        "'a\rb' == task.target",
        "facts.accepted == ",
        "facts.accepted facts.accepted",
        "(facts.accepted",
        "facts.verb in [facts.verb]",
        "facts.verb in []",
        "size == 1",
        "facts.accepted // comment",
        "facts.count == 99999999999999999999",
        "(" * 100 + "facts.accepted" + ")" * 100,
        "!" * 100 + "facts.accepted",
        "facts.accepted" + " || facts.accepted" * MAX_LENGTH,
        "facts.accepted\x00",
        "😀",
    ],
)
def test_what_is_not_in_the_language_is_refused(text):
    with pytest.raises(RubricError):
        Condition.parse(text)


@given(st.text(max_size=80))
@settings(max_examples=200)
def test_any_text_is_read_or_refused(text):
    with contextlib.suppress(RubricError):
        Condition.parse(text)


PIECES = ["facts.accepted", "facts.kinds", "facts.verb", "task.target", "facts.count", "'take'"]
PIECES += ["1", "true", "&&", "||", "==", "!=", "<", "in", "!", "(", ")", "[", "]", ",", "size("]


@given(st.lists(st.sampled_from(PIECES), max_size=12).map(" ".join))
@settings(max_examples=1000)
def test_whatever_is_taken_has_a_truth_value(text):
    try:
        condition = Condition.parse(text, TERMS)
    except RubricError:
        return
    facts = Facts(accepted=True, count=1, verb="take", kinds=("cup",))
    assert isinstance(condition.evaluate(facts, Task("cup")), bool)


@pytest.mark.parametrize(
    ("text", "field", "value", "kind"),
    [
        ("facts.accepted", "accepted", 1, "truth value"),
        ("!facts.accepted", "accepted", None, "truth value"),
        ("facts.count < 2", "count", True, "whole number"),
        ("facts.count == 2", "count", "2", "whole number"),
        ("facts.price < 2.0", "price", float("nan"), "number"),
        ("facts.verb == 'take'", "verb", None, "string"),
        ("'cup' in facts.kinds", "kinds", "cupboard", "list of strings"),
        ("size(facts.kinds) == 3", "kinds", "cup", "list of strings"),
    ],
)
def test_a_value_of_a_wrong_type_is_an_error_that_names_the_field(text, field, value, kind):
    condition = Condition.parse(text, TERMS)
    with pytest.raises(TypeError, match=rf"^facts\.{field} is {value!r}, not a {kind}$"):
        condition.evaluate(Facts(**{field: value}), Task())
    assert condition.explain(Facts(**{field: value}), Task()) == ()


@pytest.mark.parametrize(
    "text",
    [
        "true" + " && true" * (MAX_LENGTH // 8 - 1),
        "true" + " && true || true" * (MAX_LENGTH // 16 - 1),
        "(" * MAX_DEPTH + "true" + ")" * MAX_DEPTH,
        "!(" * (MAX_DEPTH // 2) + "true" + ")" * (MAX_DEPTH // 2),
        "(true && (false || " * (MAX_DEPTH // 2) + "true" + "))" * (MAX_DEPTH // 2),
    ],
    ids=["a chain", "two chains", "parentheses", "negations", "alternating groups"],
)
def test_no_condition_exhausts_the_stack(text):
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + 150)
    try:
        condition = Condition.parse(text)
        assert condition.evaluate(Facts(), Task())
        assert condition.explain(Facts(), Task())
    finally:
        sys.setrecursionlimit(limit)


def test_a_record_with_a_field_of_another_type_is_a_mistake_of_the_world():
    @dataclass
    class Odd:
        where: dict

    Odd.__annotations__["where"] = dict
    with pytest.raises(RubricError, match=r"Odd\.where"):
        field_terms("facts", Odd)


@pytest.mark.parametrize(
    "kind", [list[str], tuple[int, ...], Literal[1, 2], tuple[Literal[1], ...]]
)
def test_a_field_that_no_condition_can_read_is_refused(kind):
    record = make_dataclass("Odd", [("where", kind)])
    with pytest.raises(RubricError, match=r"Odd\.where is .*: use bool"):
        field_terms("facts", record)
