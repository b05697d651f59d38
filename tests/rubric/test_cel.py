"""A condition has the value that a library for CEL gives it."""

import dataclasses
import random
import re
from contextlib import suppress
from functools import cache, partial
from pathlib import Path

import cel
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.rubric.test_conditions import TERMS, Facts, Task
from trca.common.registry import load_file
from trca.envs import make
from trca.envs.check import play
from trca.envs.registration import env_class
from trca.envs.teams.messages import MessageBinding, MessageFacts, message_library
from trca.rubric import Condition, RubricLibrary
from trca.rubric.conditions import field_terms

ENVIRONMENTS = ("alfworld", "webshop", "searchqa")
EXAMPLES = Path(__file__).parents[2] / "examples"
KEY_DOOR = load_file(EXAMPLES / "key_door" / "key_door" / "env.py")
SCIENCEWORLD = load_file(EXAMPLES / "scienceworld" / "trca_scienceworld" / "facts.py")
TAU2 = load_file(EXAMPLES / "tau2_telecom" / "trca_tau2" / "facts.py")
COOKING = load_file(EXAMPLES / "textworld_express" / "trca_textworld_express" / "facts.py")
LIBRARIES = {
    name: (RubricLibrary.load(name), adapter.facts_type, adapter.binding_type)
    for name in ENVIRONMENTS
    for adapter in [env_class(name).adapter_class]
} | {
    "messages": (message_library(), MessageFacts, MessageBinding),
    "key_door": (
        RubricLibrary.load(EXAMPLES / "key_door" / "key_door" / "rubric.yaml"),
        KEY_DOOR.Facts,
        KEY_DOOR.Binding,
    ),
    "scienceworld": (
        RubricLibrary.load(EXAMPLES / "scienceworld" / "trca_scienceworld" / "rubric.yaml"),
        SCIENCEWORLD.Facts,
        SCIENCEWORLD.Binding,
    ),
    "tau2_telecom": (
        RubricLibrary.load(EXAMPLES / "tau2_telecom" / "trca_tau2" / "rubric.yaml"),
        TAU2.Facts,
        TAU2.Binding,
    ),
    "textworld_express": (
        RubricLibrary.load(
            EXAMPLES / "textworld_express" / "trca_textworld_express" / "rubric.yaml"
        ),
        COOKING.Facts,
        COOKING.Binding,
    ),
}
"""Name of each library of the repository -> the library and its types of facts and binding."""


def cel_value(text, facts, binding):
    return cel_program(text).execute({"facts": plain(facts), "task": plain(binding)})


cel_program = cache(cel.compile)


def plain(record):
    """The fields of a dataclass, which may have slots."""
    return {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}


def values(term, literals=()):
    """Values of a field's type: those that conditions name, and others."""
    word = st.sampled_from(term.allowed or (*literals, "", "mug", "Mug", "é", "\uffff", "😀"))
    return {
        "truth value": st.booleans(),
        "whole number": st.integers(-3, 6) | st.sampled_from([-(2**62), 2**62]),
        "number": st.floats(-3, 20) | st.sampled_from([0.0, 0.5, 3, -(10.0**300), float("inf")]),
        "string": word,
        "list of strings": st.lists(word, max_size=4).map(tuple),
    }[term.kind]


def records(prefix, record, literals=()):
    return st.builds(
        record,
        **{
            name.removeprefix(prefix + "."): values(term, literals)
            for name, term in field_terms(prefix, record).items()
        },
    )


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_shipped_conditions_on_the_facts_of_episodes(name):
    env = make(name)
    conditions = [operator.condition for operator in env.judge.library.operators]
    fired = set()
    for seed in range(4):
        _, info = env.reset(seed=seed)
        rng = random.Random(seed)

        def player(info, rng=rng):
            actions = [env.unwrapped.oracle_action(), "", "sing", *info["admissible_actions"]]
            return rng.choice(actions[:1] * len(actions) + actions)

        for step in play(env, info, player):
            binding, facts = env.unwrapped.adapter.binding, step.info["facts"]
            expected = [cel_value(condition, facts, binding) for condition in conditions]
            assert step.info["rubric"]["judgments"].tolist() == expected
            fired |= set(step.info["rubric"]["fired"])
    assert len(fired) >= 10
    assert not env.judge.errors


@pytest.mark.parametrize("name", LIBRARIES)
@given(data=st.data())
@settings(max_examples=40)
def test_conditions_of_each_library_on_any_facts(name, data):
    library, facts_type, binding_type = LIBRARIES[name]
    terms = field_terms("facts", facts_type) | field_terms("task", binding_type)
    text = "\n".join(operator.condition for operator in library.operators)
    literals = tuple(word[1:-1] for word in re.findall(r"'[^']*'|\"[^\"]*\"", text))
    facts = data.draw(records("facts", facts_type, literals))
    binding = data.draw(records("task", binding_type, literals))
    for operator in library.operators:
        condition = Condition.parse(operator.condition, terms)
        assert condition.evaluate(facts, binding) is cel_value(operator.condition, facts, binding)


WHOLE = ["facts.count", "size(facts.kinds)", "size(['a', \"b\"])", "0", "02", "3"]
NUMBERS = ["facts.price", "task.limit", "0.5", "3.0", "12345678901.25"]
WORDS = ["task.target", "'mug'", '"Mug"', "''", "'é'", '"😀"', "'facts.verb || true'"]
VERBS = ["facts.verb", "'take'", '"move"', "''"]
LISTS = ["facts.kinds", "['mug', 'é']", '["😀"]']
ORDER = ["==", "!=", "<", "<=", ">", ">="]


def relation(left, symbols, right):
    parts = (st.sampled_from(each) for each in (left, symbols, right))
    return st.tuples(*parts).map(" ".join)


ATOMS = st.one_of(
    st.sampled_from(["facts.accepted", "true", "false"]),
    relation(WHOLE, ORDER, WHOLE),
    relation(NUMBERS, ORDER, NUMBERS),
    relation(WORDS, ORDER[:2], WORDS),
    relation(VERBS, ORDER[:2], VERBS),
    relation(WORDS, ["in"], LISTS),
    relation(VERBS, ["in"], ["['take', '']"]),
    relation(
        ["facts.accepted", "true", "(facts.count < 2)"], ORDER[:2], ["facts.accepted", "!true"]
    ),
)
CONDITIONS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["&&", "||"]), inner).map(" ".join),
        inner.map("({})".format),
        inner.map("!({})".format),
    ),
    max_leaves=8,
)


@given(CONDITIONS, records("facts", Facts), records("task", Task))
def test_any_condition_on_any_facts(text, facts, binding):
    condition = Condition.parse(text, TERMS)
    assert condition.evaluate(facts, binding) is cel_value(text, facts, binding)


SCALARS = [
    np.int64(2),
    np.float64(2.0),
    np.float32(0.5),
    np.bool_(True),
    np.str_("mug"),
]


@pytest.mark.parametrize("value", SCALARS, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize(
    "text",
    [
        "facts.accepted && !(task.target == '')",
        "!facts.accepted || facts.count == 2",
        "facts.count < 3 && facts.price >= 0.5",
        "task.target in facts.kinds || facts.price == 2.0",
    ],
)
def test_values_of_numpy(text, value):
    fields = {"count": 2, "accepted": True, "price": 1.0, "kinds": ("mug",)}
    name = {"i": "count", "f": "price", "b": "accepted", "U": "target"}[value.dtype.kind]
    facts = Facts(**fields | ({name: value} if name != "target" else {}))
    binding = Task(value if name == "target" else "cup")
    result = Condition.parse(text, TERMS).evaluate(facts, binding)
    assert result is cel_value(text, facts, binding)


@given(
    CONDITIONS, records("facts", Facts), st.sampled_from(["accepted", "count", "price", "kinds"])
)
def test_a_value_despite_an_ill_typed_field_does_not_depend_on_the_field(text, facts, name):
    wrong = dataclasses.replace(facts, **{name: None})
    with suppress(TypeError):
        assert Condition.parse(text, TERMS).evaluate(wrong, Task()) is cel_value(
            text, facts, Task()
        )


@pytest.mark.parametrize(
    "text",
    ["facts.count > 1 || facts.accepted", "facts.accepted || facts.count > 1"],
)
def test_a_side_that_decides_overrules_an_error_as_in_cel(text):
    for facts in (Facts(True, count=None), Facts(False, count=None)):
        condition = Condition.parse(text, TERMS)
        if facts.accepted:
            assert condition.evaluate(facts, Task()) is cel_value(text, facts, Task()) is True
        else:
            for evaluate in (condition.evaluate, partial(cel_value, text)):
                with pytest.raises(TypeError):
                    evaluate(facts, Task())
