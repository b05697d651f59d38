"""``trca rubric build`` against a real server with good and bad replies."""

import json
from pathlib import Path

import pytest
import yaml

from tests.cli.calls import done, refused
from tests.envs.retrieval.servers import http, replying
from trca.rubric import RubricLibrary

FOLDER = Path(__file__).parents[3] / "examples" / "key_door" / "key_door"
KEY_DOOR = f"{FOLDER}/env.py:KeyDoor"
GOOD = json.dumps({"operators": yaml.safe_load((FOLDER / "rubric.yaml").read_text())["operators"]})
SECRET = "sk-very-secret"


def completion(text):
    choice = {"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    return http(json.dumps({"choices": [choice], "usage": {}}))


def build(url, to="rubric.yaml", *more, call=done):
    base = url.removesuffix("/retrieve") + "/v1"
    arguments = [KEY_DOOR, f"--to={to}", f"--base-url={base}", "--model=some-model", *more]
    return call("rubric", "build", *arguments, env={"OPENAI_API_KEY": SECRET})


def body(request):
    return json.loads(request.partition(b"\r\n\r\n")[2])


def test_one_call_writes_a_library_that_judges(here):
    with replying(completion(GOOD)) as (url, requests):
        output = build(url)
    assert len(requests) == 1
    asked = body(requests[0])
    assert asked["response_format"]["json_schema"]["strict"] is True
    library = RubricLibrary.load(here / "rubric.yaml")
    told = library.provenance
    assert (told.model, told.replies, told.refused) == ("some-model", 1, ())
    assert told.prompt == asked["messages"][0]["content"]
    assert SECRET.encode() in requests[0]
    assert SECRET not in (here / "rubric.yaml").read_text() + output
    done("rubric", "check", "rubric.yaml", f"--env={KEY_DOOR}")


def test_bad_replies_go_back_with_their_errors_until_one_holds(here):
    unknown = GOOD.replace("task.key in facts.new", "task.gold in facts.new")
    replies = ["I cannot do that.", unknown, GOOD]
    with replying(*map(completion, replies)) as (url, requests):
        output = build(url)
    told = RubricLibrary.load(here / "rubric.yaml").provenance
    assert told.replies == len(requests) == 3
    assert "there is no 'task.gold'" in told.refused[1]
    assert "there is no 'task.gold'" in body(requests[2])["messages"][0]["content"]
    assert "reply 1 of 4 is refused: the reply is no JSON" in output


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (completion("no"), "no reply of 4 is a library; the last one: the reply is no JSON"),
        (http('{"error": "bad key"}', "401 Unauthorized"), "HTTP 401"),
        (http("<html>", "200 OK"), "this is not JSON"),
    ],
)
def test_what_never_gives_a_library_ends_in_one_line_and_no_file(here, reply, words):
    with replying(reply) as (url, _):
        assert words in build(url, call=refused)
    assert not list(here.iterdir())


def test_a_refusal_is_kept_short_and_the_library_can_be_read(here):
    huge = json.dumps({"operators": [["x" * 40_000]]})
    with replying(*map(completion, [huge, huge, huge, GOOD])) as (url, _):
        build(url)
    errors = RubricLibrary.load(here / "rubric.yaml").provenance.refused
    assert [len(each) <= 300 for each in errors] == [True] * 3


def test_a_file_that_cannot_be_written_is_told_before_the_model_is_asked(here):
    (here / "rubric.yaml").write_text("mine")
    with replying(completion(GOOD)) as (url, requests):
        missing = build(url, "missing/rubric.yaml", call=refused)
        assert "is not a folder: make it first" in missing
        assert "rubric.yaml exists: name a new file" in build(url, call=refused)
    assert not requests
    assert (here / "rubric.yaml").read_text() == "mine"


def test_a_dry_run_prints_all_that_the_model_would_be_told(here):
    output = build("http://127.0.0.1:9", "rubric.yaml", "--dry-run")
    assert "FACTS OF A TRANSITION\n- facts.verb (string)" in output
    assert not list(here.iterdir())
