"""Reading plans: any response is read completely or not at all."""

import re

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from trca.envs.responses import (
    LONGEST_SUBGOAL,
    NO_ACTION,
    PLAN_FORMAT,
    RESPONSE_FORMATS,
    read_plan,
    write_plan,
)

GOOD = "<switch>SWITCH</switch><subgoal>find a mug</subgoal><action>go to desk 1</action>"
PIECES = [
    *PLAN_FORMAT.tags,
    "KEEP",
    "SWITCH",
    "find a mug",
    "look",
    "<|end|>",
    " ",
    "\n",
    "<switch>KEEP</switch>",
    "<subgoal>find</subgoal>",
    "<action>look</action>",
]
texts = st.lists(st.sampled_from(PIECES), max_size=10).map("".join)


def test_a_plan_is_read_with_its_parts():
    reading = read_plan(f"I need a mug. {GOOD}")
    assert (reading.action, reading.plan.switch) == ("go to desk 1", True)
    assert reading.plan.subgoal == "find a mug"
    response = f"I need a mug. {GOOD}"
    assert response[slice(*reading.span)] == GOOD
    assert [response[slice(*part)] for part in reading.plan.parts] == [
        "<switch>SWITCH</switch>",
        "<subgoal>find a mug</subgoal>",
        "<action>go to desk 1</action>",
    ]


@pytest.mark.parametrize(
    ("response", "switch", "subgoal"),
    [
        (GOOD.replace("SWITCH", " keep\n"), False, "find a mug"),
        (GOOD.replace("><subgoal", ">\n <subgoal").replace("><action", ">\t<action"), True, None),
        (GOOD.replace("find a mug", "  find\n a \x85 mug "), True, "find a mug"),
        (GOOD.replace("find a mug", "x" * LONGEST_SUBGOAL), True, "x" * LONGEST_SUBGOAL),
        (GOOD + " and more", True, "find a mug"),
        ("<think>switch? </subgoals> < action ></think>" + GOOD, True, "find a mug"),
    ],
)
def test_blanks_and_thoughts_are_allowed_where_they_do_no_harm(response, switch, subgoal):
    reading = read_plan(response)
    assert reading.action == "go to desk 1"
    assert (reading.plan.switch, reading.plan.subgoal) == (switch, subgoal or "find a mug")


@pytest.mark.parametrize(
    "response",
    [
        *(GOOD.replace(tag, "") for tag in PLAN_FORMAT.tags),
        *(GOOD + tag for tag in PLAN_FORMAT.tags),
        *(tag + GOOD for tag in PLAN_FORMAT.tags),
        GOOD * 2,
        GOOD.replace("><action", "><subgoal>other</subgoal><action"),
        "<subgoal>find</subgoal><switch>KEEP</switch><action>look</action>",
        "<action>look</action><switch>KEEP</switch><subgoal>find</subgoal>",
        "<switch>KEEP<subgoal>find</switch></subgoal><action>look</action>",
        "<switch>KEEP<subgoal>find</subgoal></switch><action>look</action>",
        GOOD.replace("SWITCH", "MAYBE"),
        GOOD.replace("SWITCH", "KEEP or SWITCH"),
        GOOD.replace("SWITCH", ""),
        GOOD.replace("find a mug", ""),
        GOOD.replace("find a mug", " \n"),
        GOOD.replace("find a mug", "x" * (LONGEST_SUBGOAL + 1)),
        GOOD.replace("find a mug", "x" + " " * 10**6 + "y" * LONGEST_SUBGOAL),
        GOOD.replace("find a mug", "find <|im_end|>"),
        GOOD.replace("find a mug", "a > b"),
        GOOD.replace("go to desk 1", " "),
        GOOD.replace("><action", ">then<action"),
        GOOD.replace("><subgoal", ">:<subgoal"),
        GOOD.replace("<subgoal>", "<SUBGOAL>"),
        "<action>look</action>",
        "",
    ],
)
def test_what_breaks_a_rule_has_no_action(response):
    assert read_plan(response) is NO_ACTION


def by_definition(response):
    """The only place with the three parts in a row, if no further tag is present."""
    tags = "</?(?:switch|subgoal|action)>"
    match = re.fullmatch(
        rf"((?:(?!{tags}).)*)<switch>\s*(keep|switch)\s*</switch>\s*<subgoal>([^<>]*)</subgoal>\s*"
        rf"<action>((?:(?!{tags}).)*)</action>(?:(?!{tags}).)*",
        response,
        re.DOTALL | re.IGNORECASE,
    )
    if match is None or not match[3].strip() or not match[4].strip():
        return None
    return match[2].upper() == "SWITCH", " ".join(match[3].split()), match[4].strip()


@given(texts)
@settings(max_examples=500, deadline=None, phases=[Phase.generate])
def test_any_mixture_of_tags_is_read_as_defined(response):
    reading, defined = read_plan(response), by_definition(response)
    if defined is None:
        assert reading is NO_ACTION
    else:
        assert (reading.plan.switch, reading.plan.subgoal, reading.action) == defined


words = st.text(min_size=1, max_size=30).filter(lambda text: text.strip() and "<" not in text)


@given(st.booleans(), words, words)
@settings(max_examples=200, deadline=None)
def test_what_is_written_is_read_back(switch, subgoal, action):
    subgoal = subgoal.replace(">", "?")
    reading = read_plan(write_plan(switch, subgoal, action))
    assert reading.action == action.strip()
    assert (reading.plan.switch, reading.plan.subgoal) == (switch, " ".join(subgoal.split()))


@pytest.mark.parametrize("piece", [*PIECES, GOOD, "\x00", "é"])
def test_a_megabyte_of_anything_is_read(piece):
    assert read_plan(piece * (1_000_000 // len(piece))) is NO_ACTION


def test_it_is_the_format_plan():
    assert RESPONSE_FORMATS.get("plan") is PLAN_FORMAT
    assert read_plan(PLAN_FORMAT.write("Now I know.", "look")).action == "look"
