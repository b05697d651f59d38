"""Environments with tools: calls, their checks, results, and hostile actions."""

import json

import pytest

from trca.envs import Outcome, ToolEnv, ToolError, make, tool
from trca.envs.check import HOSTILE_ACTIONS
from trca.envs.tool_calls import Call, read_calls, write_calls

DIGIT = {"type": "integer"}


class Safe(ToolEnv):
    """Open a safe: its code is the task id."""

    task_ids = ("42", "17")
    tools = (
        tool(
            "dial",
            "Dials a number.",
            {"number": DIGIT, "way": {"enum": ["left", "right"]}},
            ["number"],
        ),
        tool("open", "Opens the safe."),
        {
            "type": "function",
            "function": {"name": "say", "parameters": {"additionalProperties": True}},
        },
    )

    @property
    def instruction(self):
        return f"open the safe with {self.code}."

    def start_task(self, task_id, options):
        self.code, self.dialled, self.called = int(task_id), 0, []
        return "A safe."

    def call(self, name, arguments):
        self.called.append((name, arguments))
        if name == "open":
            won = self.dialled == self.code
            return Outcome("open" if won else "shut", float(won), terminated=True, milestone=won)
        if name == "say":
            return f"You say {json.dumps(arguments)}."
        if arguments["number"] > 99:
            raise ToolError("the dial ends at 99")
        self.dialled = arguments["number"]
        return f"The dial shows {self.dialled}."


@pytest.fixture
def env():
    made = make(Safe, max_steps=5)
    made.reset(options={"task": "42"})
    return made


def calls(*pairs):
    return write_calls(pairs)


def test_calls_of_an_action_are_carried_out_in_order_until_the_episode_ends(env):
    observation, reward, terminated, _, info = env.step(
        calls(("dial", {"number": 42}), ("open", {}), ("dial", {"number": 1}))
    )
    assert observation == "The dial shows 42.\n\nopen"
    assert info["tool_results"] == ("The dial shows 42.", "open")
    assert (reward, terminated, info["won"], info["milestone"]) == (1.0, True, True, True)
    assert env.unwrapped.called == [("dial", {"number": 42}), ("open", {})]


def test_info_has_the_tools_at_every_step(env):
    _, info = env.reset(options={"task": "17"})
    assert info["tools"] == Safe.tools
    assert info["tool_results"] == ()
    info = env.step(calls(("dial", {"number": 1})))[4]
    assert info["tools"] == Safe.tools


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (
            ("dail", {"number": 1}),
            "unknown tool 'dail': did you mean 'dial'? Known: dial, open, say",
        ),
        (("dial", {}), "dial lacks the argument 'number': add it"),
        (("dial", [1]), "the arguments of dial are [1]: give an object"),
        (("dial", {"number": 1, "wya": "left"}), "dial has no argument 'wya': did you mean 'way'?"),
        (
            ("dial", {"number": "1.5"}),
            "the argument 'number' of dial is '1.5': give a value of type integer",
        ),
        (
            ("dial", {"number": True}),
            "the argument 'number' of dial is True: give a value of type integer",
        ),
        (
            ("dial", {"number": 1, "way": "up"}),
            "the argument 'way' of dial is 'up': Known: left, right",
        ),
        (("dial", {"number": 100}), "the dial ends at 99"),
    ],
)
def test_a_call_that_does_not_fit_is_an_error_for_the_agent(env, call, error):
    _, reward, terminated, _, info = env.step(calls(call, ("dial", {"number": 3})))
    assert info["tool_results"][0].startswith(f"Error: {error}")
    assert info["tool_results"][1] == "The dial shows 3."
    assert (reward, terminated, info["parsed"], info["accepted"]) == (0.0, False, True, False)


@pytest.mark.parametrize(
    ("declared", "error"),
    [
        ((tool("a", ""), tool("a", "")), "two tools have the name 'a'"),
        (("a",), "the tool 'a' is malformed .*write it with trca.envs.tool"),
        (({"name": "a"},), "malformed .*KeyError"),
        ((tool(3, ""),), "malformed .*its name is not a string"),
        ((tool("a", "", {"b": {"type": 5}}),), "malformed"),
        ((tool("a", "", {"b": {}, "c": {"enum": 5}}),), "malformed"),
        ((tool("a", "", {}, [["b"]]),), "malformed"),
        ((tool("a", "", {"order": DIGIT}, "order"),), "required is 'order': give a list"),
        ((tool("a", "", {"order": DIGIT}, ["oder"]),), r"required is \['oder'\]: give a list"),
    ],
)
def test_tools_whose_calls_would_fail_are_refused_at_reset(declared, error, monkeypatch):
    monkeypatch.setattr(Safe, "tools", declared)
    with pytest.raises(ValueError, match=error):
        make(Safe).reset()


def test_empty_parts_of_a_schema_may_be_null(monkeypatch):
    parameters = {"type": "object", "properties": None, "required": None}
    declared = ({"function": {"name": "open", "parameters": parameters}},)
    monkeypatch.setattr(Safe, "tools", declared)
    assert make_started(make(Safe)).step(calls(("open", {})))[0] == "shut"


def test_a_call_that_returns_nothing_is_an_error_with_its_fix(env, monkeypatch):
    monkeypatch.setattr(Safe, "call", lambda self, name, arguments: None)
    with pytest.raises(TypeError, match=r"call\('open'\) gave None: return a text or an Outcome"):
        env.step(calls(("open", {})))


def test_the_roles_of_a_game_get_the_rewards_of_all_calls(env, monkeypatch):
    given = iter([{"a": 1.0, "b": -1.0}, {"a": 0.5, "b": 0.0}])
    monkeypatch.setattr(Safe, "call", lambda *_: Outcome("", rewards=next(given)))
    info = env.step(calls(("open", {}), ("open", {})))[4]
    assert info["rewards"] == {"a": 1.5, "b": -1.0}


@pytest.mark.parametrize("anything", [True, {}])
def test_a_schema_may_allow_any_argument(monkeypatch, anything):
    declared = tool("say", "", {}, ["a"])
    declared["function"]["parameters"]["additionalProperties"] = anything
    monkeypatch.setattr(Safe, "tools", (declared,))
    env = make_started(make(Safe))
    assert env.step(calls(("say", {"a": 1})))[0] == 'You say {"a": 1}.'
    assert "lacks the argument 'a'" in env.step(calls(("say", {"b": 1})))[0]


@pytest.mark.parametrize(
    ("kinds", "text", "value"),
    [
        ("integer", " 7\n", 7),
        ("number", "7", 7),
        ("number", "-1.5e3", -1500.0),
        ("boolean", "True", True),
        ("boolean", "false", False),
        ("array", '["a", 1]', ["a", 1]),
        ("object", '{"a": {}}', {"a": {}}),
        ("null", "None", None),
        (["integer", "null"], "null", None),
        ("string", "7", "7"),
        (["integer", "string"], "7", "7"),
    ],
)
def test_a_string_becomes_a_value_where_the_schema_allows_no_strings(kinds, text, value):
    env = make_started(make(say_env({"type": kinds}), render_mode="ansi"))
    env.step(calls(("say", {"a": text})))
    assert env.unwrapped.called == [("say", {"a": value})]
    assert f"> {calls(('say', {'a': value}))}\n" in env.render()


NUMBER_OR_NONE = {"anyOf": [{"type": "integer"}, {"type": "null"}]}


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        (NUMBER_OR_NONE, "7", 7),
        (NUMBER_OR_NONE, "None", None),
        ({"oneOf": [{"$ref": "#/$defs/count"}, {"type": "boolean"}]}, "7", 7),
        ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, "7", "7"),
        ({"anyOf": [{"type": "integer"}, {}]}, "7", "7"),
        ({"$ref": "#/$defs/count"}, "7", 7),
        ({"$ref": "#/$defs/further"}, "7", 7),
        ({"$ref": "#/$defs/level"}, "2", 2),
        ({"$ref": "#/$defs/cycle"}, "7", "7"),
        ({"$ref": "#/$defs/itself"}, "7", "7"),
        ({"$ref": "#/$defs/none"}, "7", "7"),
        ({"$ref": 5}, "7", "7"),
        ({"enum": [1, 2]}, "1", 1),
        ({"enum": ["1", 2]}, "1", "1"),
        ({"const": 7}, "7", 7),
    ],
)
def test_types_are_read_as_pydantic_writes_them(schema, text, value):
    env = make_started(make(say_env(schema)))
    assert env.step(calls(("say", {"a": text})))[4]["accepted"]
    assert env.unwrapped.called == [("say", {"a": value})]


@pytest.mark.parametrize(
    ("schema", "error"),
    [
        (NUMBER_OR_NONE, "give a value of type integer or null"),
        ({"$ref": "#/$defs/count"}, "give a value of type integer"),
        ({"$ref": "#/$defs/level"}, "'a' of say is 'many'"),
        ({"const": 7}, "'a' of say is 'many'"),
    ],
)
def test_a_value_of_another_type_or_choice_is_an_error(schema, error):
    env = make_started(make(say_env(schema)))
    assert error in env.step(calls(("say", {"a": "many"})))[0]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("integer", "true"),
        ("integer", "7.5"),
        ("boolean", "1"),
        ("number", "1e999"),
        ("number", "9" * 5000),
        ("array", "[" * 100_000),
        ("array", '["\\u0000"]'),
        ("object", '{"a": 1, "a": 2}'),
    ],
)
def test_a_string_that_is_not_a_value_of_the_type_is_an_error(kind, text):
    env = make_started(make(say_env({"type": kind})))
    assert f"give a value of type {kind}" in env.step(calls(("say", {"a": text})))[0]


DEFINED = {
    "count": {"type": "integer"},
    "further": {"$ref": "#/$defs/count"},
    "level": {"enum": [1, 2]},
    "cycle": {"anyOf": [{"$ref": "#/$defs/cycle"}, {"type": "null"}]},
    "itself": {"$ref": "#/$defs/itself"},
}


def say_env(schema):
    said = tool("say", "Says a value.", {"a": schema})
    said["function"]["parameters"]["$defs"] = DEFINED

    class Say(Safe):
        tools = (said,)

    return Say


def test_an_action_without_a_call_names_the_tools(env):
    for action in ("", "open it", "[]", "[1]", '[{"name": 3}]', '{"name": "open"', "null"):
        observation, _, _, _, info = make_started(env).step(action)
        assert observation == "There is no call. Call one of the tools: dial, open, say."
        assert not info["accepted"]
        assert info["tool_results"] == ()


def test_a_child_process_passes_tools_and_results(env):
    child = make(Safe, isolation="process")
    other = child.reset(options={"task": "42"})[1]
    assert other["tools"] == Safe.tools
    action = calls(("dial", {"number": 3}), ("dail", {}))
    assert child.step(action)[4]["tool_results"] == env.step(action)[4]["tool_results"]
    child.close()


def make_started(env):
    env.reset(options={"task": "42"})
    return env


def test_any_string_is_a_legal_action(env):
    for action in (*HOSTILE_ACTIONS, *HOSTILE_CALLS):
        info = make_started(env).step(action)[4]
        assert not info["accepted"]
        assert env.unwrapped.called == []


DEEP = 100_000
HOSTILE_CALLS = (
    '[{"name": "open", "arguments": ' * DEEP,
    '[{"name": "say", "arguments": ' + "[" * DEEP + "]" * DEEP + "}]",
    '[{"name": "say", "arguments": {"a": ' + "[" * 40 + "]" * 40 + "}}]",
    '[{"name": "say", "arguments": {"a": NaN}}]',
    '[{"name": "say", "arguments": {"a": 1e999}}]',
    '[{"name": "say", "arguments": {"a": ' + "9" * 5000 + "}}]",
    '[{"name": "say", "arguments": {"a": 1, "a": 2}}]',
    '[{"name": "say", "arguments": {"a": "\\ud800"}}]',
    '[{"name": "say", "arguments": {"\\u0000": "a"}}]',
    '[{"name": "say\\u0000", "arguments": {}}]',
    '[{"name": "x", "arguments": {}}]' + " " * 10**6,
)


def test_the_written_form_of_calls_is_read_again():
    written = calls(("find", {"name": "Zoë", "text": 'a "b"\n\tc', "n": -1.5e3}), ("open", {}))
    assert [tuple(call) for call in read_calls(written)] == [
        ("find", {"name": "Zoë", "text": 'a "b"\n\tc', "n": -1500.0}),
        ("open", {}),
    ]
    assert read_calls('{"name": "open"}') == (Call("open", {}),)
    assert read_calls(' {"name": "f", "parameters": {"a": 1}}') == (Call("f", {"a": 1}),)
