"""The tags of Search-R1: what they mean, and the prompt that asks for them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trca.envs.responses import RESPONSE_FORMATS, TaggedResponse, response_format
from trca.envs.searchqa.env import SearchQAEnv
from trca.envs.searchqa.responses import (
    dialect_prompt,
    dialect_span,
    in_dialect,
    parse_dialect,
)

PIECES = ["<search>", "</search>", "<answer>", "</answer>", "<think>", "<", "/", "Ada", " ", "]"]


@pytest.mark.parametrize(
    ("response", "command"),
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
        ("", ""),
    ],
)
def test_one_pair_of_tags_is_a_command(response, command):
    assert parse_dialect(response) == command


@given(st.lists(st.sampled_from(PIECES), max_size=8).map("".join))
@settings(max_examples=300, deadline=None)
def test_a_command_is_parsed_exactly_where_there_is_a_span(response):
    span = dialect_span(response)
    command = parse_dialect(response)
    assert (span is None) == (command == "")
    if span is not None:
        assert parse_dialect(response[slice(*span)]) == command


def test_a_megabyte_is_read_in_good_time():
    for piece in ("<search>", "</search>", "<", "x"):
        assert parse_dialect(piece * (1_000_000 // len(piece))) == ""


def test_a_world_takes_the_dialect():
    env = TaggedResponse(SearchQAEnv(), response_format("search_r1"))
    env.reset(seed=0)
    page, *_, info = env.step("<think>?</think><search>Ada Balan</search>")
    assert page.startswith("[1] ")
    assert info["accepted"]
    *_, terminated, _, info = env.step("<answer>Oslo</answer>")
    assert terminated


def test_formats_have_names():
    assert RESPONSE_FORMATS == ("action", "search_r1")
    with pytest.raises(
        ValueError, match="unknown response format 'r1': choose action or search_r1"
    ):
        response_format("r1")


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
