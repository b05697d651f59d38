"""Prompts and response formats of the prompting agents."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trca.algorithms.settings.parameters import TextParameters, check
from trca.policies.agents import AGENTS
from trca.policies.agents.react import react_prompt, read_react, reflection_prompt

HISTORY = [("You see a desk 1.", "Thought: look.\nAction: go to desk 1\n")]


@pytest.mark.parametrize("name", AGENTS.names())
def test_the_settings_of_an_agent_are_hyperparameters(name):
    assert check(TextParameters, dict(AGENTS.get(name).settings))


@pytest.mark.parametrize(
    ("response", "action"),
    [
        ("Thought: a mug.\nAction: take mug 1", "take mug 1"),
        ("Action: go east\nObservation 2: You see.\nThought: b\nAction: go west", "go east"),
        ("**Thought:** x\n**Action:** `click[buy now]`", "click[buy now]"),
        ("> Action 3: 'search[red mug]'\r\n", "search[red mug]"),
        ("**Action: go east**", "go east"),
        ("*Action:* go east", "go east"),
        ("**Action:** **go east**", "go east"),
        ("**Action**: **go east**", "go east"),
        ("_Action_: _look_", "look"),
        ("Action:**go east**", "go east"),
        ("Action:*look*", "look"),
        ("** Action: look", "look"),
        ("- Action: look", "look"),
        ("2. **Action**: look", "look"),
        ('Action: "go east"', "go east"),
        ("Action: use knife on 'apple'", "use knife on 'apple'"),
        ("Action: 'a' on 'b'", "'a' on 'b'"),
        ('Action: say "hello"', 'say "hello"'),
        ("Action: sing<|im_end|>", "sing"),
        ("Action: take `a </s>", "take `a"),
        ("Thought: the Action: is unclear", ""),
        ("Action:\nlook", "look"),
        ("Action:\nThought: look", ""),
        ("Action:\n\nObservation 1: a desk", ""),
        ("Action:\n```\nlook\n```", "look"),
        ("Action: ```\ngo east\n```\nObservation", "go east"),
        ("Action:\n```text\n`look`\n```", "look"),
        ("**Action:**\n**look**", "look"),
        ("action: look", "look"),
        ("ACTION: look", "look"),
        ("### Action: look", "look"),
        ("**Action:**look", "look"),
        ("__Action:__look", "look"),
        ("Action: ```look```", "look"),
        ("Action: \u201clook\u201d", "look"),
        ("Action: \u2018look\u2019", "look"),
        ("Action\uff1alook", "look"),
        ("Action: ** ", ""),
        ("", ""),
    ],
)
def test_the_first_line_of_an_action_is_read(response, action):
    reading = read_react(response)
    assert reading.action == action
    assert (reading.span is not None) == bool(action)
    if reading.span:
        assert action in response[slice(*reading.span)]
        assert "\n" not in response[slice(*reading.span)].rpartition(action)[2]


@given(st.text(alphabet="Action: \n*>_1`é"))
def test_any_response_is_read(response):
    assert read_react(response).action == read_react(response).action.strip()


def test_react_shows_thoughts_actions_and_observations_in_order():
    text = react_prompt("find a mug.", 1, 9, HISTORY, "", "On it is a mug 1.", ["take mug 1"])
    assert text.startswith("You act in a text environment. Your task is to: find a mug.\n")
    assert "You have 9 steps in all and have already taken 1." in text
    assert text.endswith(
        "\n\nObservation 1: You see a desk 1.\nThought: look.\nAction: go to desk 1"
        "\nObservation 2: On it is a mug 1.\nAdmissible actions: 'take mug 1'"
    )
    assert "earlier" not in text


def test_the_react_prompt_marks_omitted_steps_and_shows_reflections():
    text = react_prompt("find a mug.", 5, 9, HISTORY, "Trial 1: open it.", "A mug.", [])
    assert "(earlier steps are left out)\nObservation 5: You see a desk 1." in text
    assert "earlier, failed trials of this task:\nTrial 1: open it.\n" in text
    assert "Admissible" not in text
    assert "Action: one action, and" in text


def test_the_reflection_prompt_shows_the_complete_attempt_and_earlier_plans():
    text = reflection_prompt("find a mug.", 1, 1, HISTORY, "Trial 1: open it.", "Nothing.", [])
    assert "was to: find a mug.\nYour plans from earlier trials:\nTrial 1: open it.\n" in text
    assert (
        "Your last trial took 1 steps:\nObservation 1: You see a desk 1.\nThought: look.\n"
        "Action: go to desk 1\nObservation 2: Nothing.\n" in text
    )
    assert text.endswith("Plan:")
