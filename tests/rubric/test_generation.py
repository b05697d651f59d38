"""A model's replies with a library: valid replies, invalid replies and their errors."""

import json
from pathlib import Path

import pytest
import yaml

from trca.envs.library_report import interface
from trca.rubric import RubricError, RubricLibrary
from trca.rubric.generation import SCHEMA, as_yaml, generate, read_reply
from trca.rubric.library import Operator, Provenance

FOLDER = Path(__file__).parents[2] / "examples" / "key_door" / "key_door"
KEY_DOOR = f"{FOLDER}/env.py:KeyDoor"
OPERATORS = yaml.safe_load((FOLDER / "rubric.yaml").read_text())["operators"]
ABOUT = Provenance(
    model="m",
    endpoint="http://127.0.0.1/v1",
    date="2026-01-01T00:00:00+00:00",
    trca="0",
    temperature=0,
    replies=2,
    refused=("the reply is no JSON: ...",),
    prompt_sha256="00",
    prompt="Write\n  a library.\n",
)


@pytest.fixture(scope="module")
def shown():
    return interface(KEY_DOOR)


def reply(**changes):
    """A library as a model writes it; ``n=...`` changes fields of operator ``n``."""
    operators = [dict(each) for each in OPERATORS]
    for number, fields in changes.items():
        operators[int(number[1:])].update(fields)
    return json.dumps({"operators": operators})


def test_a_library_may_come_in_a_fence_and_in_any_order(shown):
    text = json.dumps({"operators": OPERATORS[::-1]}, indent=2)
    library, errors = read_reply(f"```json\n{text}\n```\n", shown)
    assert errors == []
    assert set(library.ids) == {each["id"] for each in OPERATORS}
    assert library.categories.tolist() == [0] * 5 + [1] * 5 + [2] * 5
    assert library.environment == "KeyDoor"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Here is your library!", "the reply is no JSON"),
        ("[" * 100_000, "the reply is no JSON"),
        ("[]", 'not an object with a list "operators"'),
        ('{"operators": 3}', 'not an object with a list "operators"'),
        ('{"operators": [3]}', "operator 3: operator: Input should be"),
        (json.dumps({"operators": OPERATORS[1:]}), "4 evidence operators: write 5"),
        (reply(_0={"category": ["evidence"]}), "category: Input should be 'evidence'"),
        (reply(_0={"condition": "facts.gold"}), "there is no 'facts.gold'"),
        (reply(_0={"condition": "facts.new"}), "the condition is a list of strings, not a truth"),
        (reply(_0={"condition": "__import__('os')"}), "unexpected '__import__'"),
        (reply(_0={"reads": []}), "the condition uses 'new': add it to reads"),
        (reply(_0={"id": "key_seen"}), "2 operators have the id 'key_seen'"),
        (reply(_0={"weight": 3}), "weight: Extra inputs are not permitted"),
        (reply(_0={"id": "Key Seen"}), "id: String should match pattern"),
    ],
)
def test_a_reply_that_breaks_a_rule_is_refused_with_the_reason(shown, text, words):
    library, errors = read_reply(text, shown)
    assert library is None
    assert words in " ".join(errors)


def test_all_errors_go_back_at_once_with_the_reply(shown):
    bad = reply(_3={"condition": "facts.gold"}, _9={"reads": ["accepted", "verb", "held", "nose"]})
    prompts = []

    def ask(prompt, schema):
        assert schema is SCHEMA
        prompts.append(prompt)
        return bad if len(prompts) == 1 else reply()

    written = generate(shown, ask)
    assert len(written.refused) == 1
    assert prompts[0] == written.prompt == shown.prompt
    for part in ("there is no 'facts.gold'", "lists 'nose'", "something_seen", bad):
        assert part in prompts[1].removeprefix(shown.prompt)


def test_a_fence_that_is_never_closed_is_read_at_once(shown):
    _, errors = read_reply("```json\n" + "\n" * 200_000 + "x", shown)
    assert errors[0].startswith("the reply is no JSON")


def test_the_next_prompt_has_the_beginnings_of_the_first_errors_and_the_counts(shown):
    long = json.dumps({"operators": [{"id": "x" * 100_000}] * 30})
    prompts, told = [], []

    def ask(prompt, schema):
        prompts.append(prompt)
        return long if len(prompts) == 1 else reply()

    generate(shown, ask, tell=lambda number, error: told.append(error))
    again = prompts[1].removeprefix(shown.prompt).partition("It was:")[0]
    assert len(again) < 7_000
    assert "0 evidence operators: write 5" in again
    assert len(told[0]) <= 300


def test_it_gives_up_and_says_why(shown):
    with pytest.raises(RubricError, match="no reply of 3 is a library; the last one: the reply is"):
        generate(shown, lambda *_: "no", attempts=3)


def test_the_file_keeps_where_the_library_comes_from(shown, tmp_path):
    library, _ = read_reply(reply(), shown)
    (tmp_path / "rubric.yaml").write_text(as_yaml(library, ABOUT))
    again = RubricLibrary.load(tmp_path / "rubric.yaml")
    assert again.provenance == ABOUT
    assert again.operators == library.operators


def test_a_prompt_that_would_make_the_file_unreadable_is_left_out(shown, tmp_path):
    library, _ = read_reply(reply(), shown)
    file = tmp_path / "rubric.yaml"
    file.write_text(as_yaml(library, ABOUT.model_copy(update={"prompt": "语" * 30_000})))
    again = RubricLibrary.load(file)
    assert (again.provenance.prompt, again.provenance.prompt_sha256) == ("", "00")
    odd = "one\x85two\u2028three\nfour"
    file.write_text(as_yaml(library, ABOUT.model_copy(update={"prompt": odd})))
    assert RubricLibrary.load(file).provenance.prompt == odd


def test_the_schema_names_the_fields_of_an_operator():
    items = SCHEMA["properties"]["operators"]["items"]
    assert list(items["properties"]) == items["required"]
    assert {*items["properties"], "judge", "requires"} == set(Operator.model_fields)
