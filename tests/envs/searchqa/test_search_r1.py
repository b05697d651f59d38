"""The tags of Search-R1: parsing responses and writing prompts."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trca.envs.responses import NO_ACTION, RESPONSE_FORMATS, Reading
from trca.envs.searchqa.env import SearchQAEnv
from trca.envs.searchqa.search_r1 import (
    SEARCH_R1_FORMAT,
    answer_prompt,
    dialect_prompt,
    growing_prompt,
    in_dialect,
    read_dialect,
)
from trca.envs.tool_calls import write_calls

PIECES = ["<search>", "</search>", "<answer>", "</answer>", "<think>", "<", "/", "Ada", " ", "]"]


@pytest.mark.parametrize(
    ("response", "action"),
    [
        ("<think>who?</think><search> Ada Balan </search>", "search[Ada Balan]"),
        ("<answer>Lum Hill</answer> and more", "answer[Lum Hill]"),
        ("<Search>Ada</SEARCH>", "search[Ada]"),
        ("<search>Ada\nBalan</search><information>...</information>", "search[Ada\nBalan]"),
        ("<answer></answer>", "answer[]"),
        ("<search>Ada</search><search>Ben</search>", ""),
        ("<search>Ada</search><answer>Ben</answer>", ""),
        ("<search>Ada</answer>", ""),
        ("</search><search>Ada</search>", ""),
        ("<search>Ada", ""),
        ("<action>search[Ada]</action>", ""),
        ("search[Ada]", ""),
        ("<ſearch>Ada</ſearch>", ""),
        ("", ""),
    ],
)
def test_one_pair_of_tags_is_an_action(response, action):
    assert read_dialect(response).action == action


@given(st.lists(st.sampled_from(PIECES), max_size=8).map("".join))
@settings(max_examples=300, deadline=None)
def test_there_is_an_action_exactly_where_there_is_a_span(response):
    reading = read_dialect(response)
    assert (reading.span is None) == (reading.action == "")
    if reading.span is not None:
        tagged = response[slice(*reading.span)]
        assert read_dialect(tagged).action == reading.action
        assert tagged.endswith(SEARCH_R1_FORMAT.stop)


def test_a_megabyte_is_read_in_good_time():
    for piece in ("<search>", "</search>", "<", "x"):
        assert read_dialect(piece * (1_000_000 // len(piece))).action == ""


def test_an_environment_takes_the_dialect():
    env = SearchQAEnv()
    env.reset(seed=0)
    page, *_, info = env.step(read_dialect("<think>?</think><search>Ada Balan</search>").action)
    assert page.startswith("[1] ")
    assert info["accepted"]
    *_, terminated, _, info = env.step(read_dialect("<answer>Oslo</answer>").action)
    assert terminated


def test_formats_have_names():
    names = RESPONSE_FORMATS.names()
    assert {"action", "action_only", "plan", "search_r1", "tool_calls"} < set(names)
    with pytest.raises(ValueError, match=f"unknown response format 'x': .*{', '.join(names)}"):
        RESPONSE_FORMATS.get("x")


def test_a_prompt_shows_queries_with_what_they_found():
    history = [("Question: Q?", "search[Ada]"), ("[1] Ada: She.", "open[1]")]
    prompt = dialect_prompt("Q?", 2, 4, history, "", "[1] Ada: She won.", ["search[<your query>]"])
    assert (
        "<search>Ada</search>\n<information>[1] Ada: She.</information>\nopen[1]\n"
        "<information>[1] Ada: She won.</information>\n"
    ) in prompt
    assert "Question: Q?" in prompt
    assert "your query" not in prompt
    first = dialect_prompt("Q?", 0, 4, [], "", "Question: Q?", [])
    assert "<information>" not in first
    assert in_dialect("answer[a[b]]") == "<answer>a[b]</answer>"


def test_a_growing_context_only_grows():
    first = growing_prompt("Q?", 0, 4, [], "", "Question: Q?", [])
    assert first.endswith("\nQuestion: Q?")
    assert "<information>" not in first.partition("Question:")[2]
    history = [("Question: Q?", "<think>who?</think><search>Ada</search>")]
    second = growing_prompt("Q?", 1, 4, history, "", "[1] Ada: She.", [])
    information = "<information>[1] Ada: She.</information>"
    assert second == f"{first}\n<think>who?</think><search>Ada</search>\n{information}"
    history.append(("[1] Ada: She.", "nothing"))
    third = growing_prompt("Q?", 2, 4, history, "", "Nothing happens.", [])
    assert third == f"{second}\nnothing\n<information>Nothing happens.</information>"


def test_a_thought_is_part_of_the_action_where_the_whole_response_is_trained():
    growing, alone = (RESPONSE_FORMATS.get(n) for n in ("search_r1_growing", "search_r1"))
    response = "<think>who?</think> <search>Ada</search> more"
    end = response.index(" more")
    assert growing.read(response) == Reading("search[Ada]", (0, end))
    assert alone.read(response) == Reading("search[Ada]", (20, end))
    assert growing.read("nothing") == NO_ACTION


def test_without_a_search_there_is_only_an_answer():
    answering = RESPONSE_FORMATS.get("r1_answer")
    assert answering.read("<think>?</think><answer>Oslo</answer>").action == "answer[Oslo]"
    assert answering.read("<search>Oslo</search>") == NO_ACTION
    assert "<search>" not in answer_prompt("Q?", 0, 1, [], "", "", [])


@pytest.mark.parametrize("name", RESPONSE_FORMATS.names())
def test_what_a_format_writes_it_reads(name):
    form = RESPONSE_FORMATS.get(name)
    action = write_calls([("a", {"b": "[c]"})]) if form.calls_tools else "answer[a [b] c]"
    assert form.read(form.write("so", action)).action == action
