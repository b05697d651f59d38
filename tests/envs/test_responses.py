"""Reading actions from responses: any string is legal and costs linear time."""

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from trca.envs.responses import ACTION_FORMAT, RESPONSE_FORMATS, read_action

PIECES = [
    "<action>",
    "</action>",
    "<think>",
    "</think>",
    "<action",
    "action>",
    "<",
    "go",
    " ",
    "\n",
]


@pytest.mark.parametrize(
    ("response", "action"),
    [
        ("<think>ok</think><action>go to desk 1</action>", "go to desk 1"),
        ("<action>\n look \t</action> and more", "look"),
        ("<action>look</action><action>help</action>", "help"),
        ("<action>look</action><action>help", "look"),
        ("<action>look</action> </action>", "look"),
        ("<action>go <action>look</action>", "look"),
        ("<think><action>look</action></think>", "look"),
        ("<action></action>", ""),
        ("<action>look", ""),
        ("look</action>", ""),
        ("</action><action>", ""),
        ("<ACTION>look</ACTION>", ""),
        ("<action >look</action>", ""),
        ("look", ""),
        ("", ""),
        ("<action>a\x00b</action>", "a\x00b"),
    ],
)
def test_the_action_is_the_last_complete_pair(response, action):
    assert read_action(response).action == action


@pytest.mark.parametrize(
    ("name", "response"),
    [
        ("action", "<think>so</think><action>look</action>"),
        ("action_only", "<action>look</action>"),
    ],
)
def test_a_written_response_is_read(name, response):
    spoken = RESPONSE_FORMATS.get(name)
    assert spoken.write("so", "look") == response
    assert spoken.read(response).action == "look"
    assert response.endswith(spoken.stop)


def by_definition(response):
    """Every opening tag with the first closing tag after it; the last such pair counts."""
    pairs, start = [], response.find("<action>")
    while start >= 0:
        end = response.find("</action>", start)
        if end >= 0:
            pairs.append(response[start + len("<action>") : end])
        start = response.find("<action>", start + 1)
    return pairs[-1].strip() if pairs else ""


@given(st.lists(st.sampled_from(PIECES), max_size=8).map("".join))
@settings(max_examples=500, deadline=None, phases=[Phase.generate])
def test_any_mixture_of_tags_is_read_as_defined(response):
    assert read_action(response).action == by_definition(response)


@given(st.text())
@settings(max_examples=500, deadline=None, phases=[Phase.generate])
def test_any_string_is_read_as_defined(response):
    assert read_action(response).action == by_definition(response)


@pytest.mark.parametrize("piece", [*PIECES, "<action></action>", "</action><action>", "\x00", "é"])
def test_a_megabyte_of_anything_is_read(piece):
    response = piece * (1_000_000 // len(piece))
    assert read_action(response).action == by_definition(response[-100:])


@given(st.lists(st.sampled_from(PIECES), max_size=8).map("".join))
@settings(max_examples=500, deadline=None, phases=[Phase.generate])
def test_the_span_holds_the_action_and_ends_with_a_stop_string(response):
    reading = read_action(response)
    if reading.span is None:
        assert reading.action == ""
    else:
        tagged = response[slice(*reading.span)]
        assert tagged.endswith(ACTION_FORMAT.stop)
        assert read_action(tagged).action == reading.action
