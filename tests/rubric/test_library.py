"""Loading a library: its rules, and errors that name the place and the fix."""

import copy
import json

import numpy as np
import pytest

from trca.envs.registration import check_library
from trca.rubric import (
    CATEGORIES,
    Budgets,
    RubricError,
    RubricLibrary,
    breakthrough_reward,
    foundational_reward,
)


def plain():
    """A library of fifteen operators that all read one fact."""
    return {
        "environment": "alfworld",
        "operators": [
            {
                "id": f"{category}_{number}",
                "category": category,
                "description": "Something was accepted.",
                "reads": ["accepted"],
                "binds": [],
                "condition": "facts.accepted",
            }
            for category in CATEGORIES
            for number in range(5)
        ],
    }


def load(tmp_path, data):
    path = tmp_path / "mine.yaml"
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    return RubricLibrary.load(path)


def test_a_library_keeps_the_order_of_its_operators(tmp_path):
    library = load(tmp_path, plain())
    assert library.ids[:2] == ("evidence_0", "evidence_1")
    np.testing.assert_array_equal(library.categories, np.repeat([0, 1, 2], 5))
    assert library.categories.dtype == np.int8


def few(*counts):
    """A library with these numbers of operators in the categories."""
    data = plain()
    data["operators"] = [
        each
        for category, count in zip(CATEGORIES, counts, strict=True)
        for each in [o for o in data["operators"] if o["category"] == category][:count]
    ]
    return data


@pytest.mark.parametrize("counts", [(1, 1, 1), (3, 1, 2), (5, 5, 4)])
def test_a_category_has_any_number_of_operators_from_one(tmp_path, counts):
    library = load(tmp_path, few(*counts))
    np.testing.assert_array_equal(library.categories, np.repeat([0, 1, 2], counts))
    judgments = np.ones((2, sum(counts)), dtype=np.uint8)
    budgets = Budgets(evidence=2.0, invalidity=3.0, execution=4.0)
    np.testing.assert_allclose(foundational_reward(judgments, library.categories, budgets), 3.0)
    first, second = breakthrough_reward(
        judgments, np.zeros(2, dtype=np.int64), library.categories, budgets
    )
    assert (first, second) == (pytest.approx(6.0), 0.0)


def requiring(**requires):
    """A library with prerequisites by operator id."""
    data = plain()
    for operator in data["operators"]:
        operator["requires"] = requires.get(operator["id"], [])
    return data


def test_an_operator_fires_only_after_its_prerequisites(tmp_path):
    """`evidence_0` needs `evidence_1`, which needs the later `execution_0`."""
    data = requiring(evidence_0=["evidence_1"], evidence_1=["execution_0"])
    library = load(tmp_path, data)
    fired = np.zeros(15, dtype=bool)
    steps = ["100000000000000", "110000000001000", "110000000010000", "100000100000000"]
    supported = ["000000000000000", "000000000001000", "110000000010000", "100000100000000"]
    for number, (before, after) in enumerate(zip(steps, supported, strict=True)):
        judgments = np.array([*before], dtype=np.uint8)
        kept = library.supported(judgments, fired)
        assert "".join(map(str, kept)) == after, f"step {number}"
        assert "".join(map(str, judgments)) == before, "the judgments are unchanged"


@pytest.mark.parametrize(
    ("requires", "message"),
    [
        ({"evidence_0": ["evidence_9"]}, "'evidence_0' requires unknown operator 'evidence_9'"),
        (
            {"evidence_0": ["evidence_1"], "evidence_1": ["evidence_0"]},
            "operators require each other: evidence_",
        ),
        ({"evidence_2": ["evidence_2"]}, "require each other: evidence_2 -> evidence_2"),
    ],
)
def test_prerequisites_that_cannot_fire_are_refused(tmp_path, requires, message):
    with pytest.raises(RubricError, match=message):
        load(tmp_path, requiring(**requires))


def changed(**fields):
    data = copy.deepcopy(plain())
    data["operators"][2].update(fields)
    return data


def without(field):
    data = copy.deepcopy(plain())
    del data["operators"][2][field]
    return data


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (changed(category="progress"), "'evidence_2': category is 'progress'.*'evidence', 'inv"),
        (few(0, 1, 2), "no evidence operator: a library has at least one in each of"),
        (changed(id="evidence_1"), "2 operators have the id 'evidence_1'"),
        (changed(id="no spaces"), "id is 'no spaces'"),
        (changed(condition="facts.accepted && "), "'evidence_2': the condition is incomplete"),
        (changed(condition="facts.verb == ''"), "uses 'verb': add it to reads"),
        (changed(reads=["accepted", "verb"]), "reads lists 'verb', which the condition does not"),
        (changed(reads=["accepted", "accepted"]), "reads repeats a name"),
        (changed(binds=["target"]), "binds lists 'target'"),
        (changed(reads="accepted"), "'evidence_2': reads"),
        (changed(description=3), "'evidence_2': description is '3'"),
        (changed(conditon="true"), "unknown key 'conditon': did you mean 'condition'"),
        (without("condition"), "'evidence_2': write a condition, or a question under judge"),
        (changed(judge="  "), "'evidence_2': judge is '  ': String should match"),
        (changed(judge="Is it?"), "'evidence_2': write a condition, or a question under judge"),
        (changed(condition="", judge="Is it?"), "'evidence_2' asks a model: leave reads and binds"),
        (changed(condition="facts.accepted" + " " * 1000), "at most 600"),
        (few(2, 1, 0), "no execution operator"),
        ({**plain(), "operators": []}, "no evidence operator"),
        ({**plain(), "operators": 7}, "operators is '7'"),
        ({**plain(), "enviroment": 1}, "unknown key 'enviroment': did you mean 'environment'"),
        ({"operators": plain()["operators"]}, "environment: Field required"),
        ("[1, 2]", "a rubric library is a mapping"),
        ("environment: [", "not a YAML file"),
        ("environment: !!python/object/apply:os.getcwd []", "not a YAML file"),
        ("a: &a [1, 1]\nb: [*a, *a]", "aliases"),
        ("[" * 5000, "not a YAML file"),
        ("", "a rubric library is a mapping"),
        ("environment: \x00", "not a YAML file"),
        ("#" * 70_000, "larger than 65536 bytes"),
    ],
)
def test_a_broken_library_is_refused_with_the_place_and_the_mend(tmp_path, data, message):
    with pytest.raises(RubricError, match=message) as refusal:
        load(tmp_path, data)
    assert "mine.yaml" in str(refusal.value)
    assert len(str(refusal.value)) < 1000


def test_every_operator_that_is_wrong_is_named_at_once(tmp_path):
    data = plain()
    data["operators"][2]["condition"] = "facts.accepted &&"
    data["operators"][9]["reads"] = []
    with pytest.raises(RubricError) as refusal:
        load(tmp_path, data)
    first, second = str(refusal.value).splitlines()
    assert "'evidence_2': the condition is incomplete" in first
    assert "'invalidity_4': the condition uses 'accepted': add it to reads" in second
    data = plain()
    data["operators"][2] |= {"condition": "facts.acepted", "reads": ["acepted"]}
    data["operators"][9] |= {"condition": 'facts.accepted == "yes"'}
    path = tmp_path / "mine.yaml"
    path.write_text(json.dumps(data))
    with pytest.raises(RubricError) as refusal:
        check_library(path)
    first, second = str(refusal.value).splitlines()
    assert "'evidence_2': there is no 'facts.acepted': did you mean 'facts.accepted'" in first
    assert "'invalidity_4': a truth value cannot be compared with a string" in second


def test_bytes_that_are_no_text_are_refused(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_bytes(b"environment: \xff\xfe")
    with pytest.raises(RubricError, match="not UTF-8"):
        RubricLibrary.load(path)


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(RubricError, match="did you mean 'alfworld'"):
        RubricLibrary.load("alfwrld")


@pytest.mark.parametrize(
    "value",
    ["!!bool maybe", "!!int ''", "!!float ''", "!!timestamp abc", "0x" + "F" * 5000],
)
def test_a_value_that_does_not_fit_its_tag_is_a_mistake_of_the_file(value):
    with pytest.raises(RubricError, match=r"^rubric library: "):
        RubricLibrary.parse(f"environment: {value}\noperators: []")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("~nouser/x.yaml", "nouser"),
        ("x" * 300, "too long"),
        ("/proc/self/mem", "name the file .yaml"),
    ],
)
def test_a_path_that_cannot_be_read_is_named(name, words):
    with pytest.raises(RubricError, match=words):
        RubricLibrary.load(name)
