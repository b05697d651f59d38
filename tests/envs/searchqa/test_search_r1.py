"""The tags of Search-R1: what they mean, and the prompt that asks for them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trca.envs.responses import RESPONSE_FORMATS, TaggedResponse
from trca.envs.searchqa.env import SearchQAEnv
from trca.envs.searchqa.search_r1 import (
    SEARCH_R1_FORMAT,
    dialect_prompt,
    in_dialect,
    read_dialect,
)

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
    env = TaggedResponse(SearchQAEnv(), RESPONSE_FORMATS.get("search_r1"))
    env.reset(seed=0)
    page, *_, info = env.step("<think>?</think><search>Ada Balan</search>")
    assert page.startswith("[1] ")
    assert info["accepted"]
    *_, terminated, _, info = env.step("<answer>Oslo</answer>")
    assert terminated


def test_formats_have_names():
    assert RESPONSE_FORMATS.names() == ("action", "search_r1")
    with pytest.raises(
        ValueError, match=r"unknown response format 'r1': .*Known: action, search_r1"
    ):
        RESPONSE_FORMATS.get("r1")


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
