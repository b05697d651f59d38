"""Tool calls: actions of a `trca.envs.tool_env.ToolEnv`, and how chat models write them.

The action of a response is a JSON list of its calls, always written in the same way::

    [{"name": "find_order", "arguments": {"id": 7}}, {"name": "refund", "arguments": {"id": 7}}]

Models write calls in three forms, and `read_tool_calls` reads them all. Qwen 2.5, Qwen 3 and Hermes
write tags, with text before, between and after them::

    <tool_call>
    {"name": "find_order", "arguments": {"id": 7}}
    </tool_call>

Qwen 3.5 and Qwen3-Coder write the arguments in tags, too. Each is read as a string, and `ToolEnv`
gives the type of the schema::

    <tool_call>
    <function=find_order>
    <parameter=id>
    7
    </parameter>
    </function>
    </tool_call>

Llama 3 begins with an object, or with ``<|python_tag|>`` and an object; ``;`` or blanks separate
further objects::

    {"name": "find_order", "parameters": {"id": 7}}
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from trca.envs.responses import NO_ACTION, Reading, ResponseFormat
from trca.envs.text_env import as_action

_OPEN: Final = "<tool_call>"
_CLOSE: Final = "</tool_call>"
_FUNCTION: Final = re.compile(r"<function=([^<>\n]+)>\s*")
_FUNCTION_END: Final = "</function>"
_PARAMETER: Final = re.compile(r"<parameter=([^<>\n]+)>\n?")
_PARAMETER_END: Final = "</parameter>"
_PYTHON: Final = "<|python_tag|>"
_START: Final = re.compile(r"(?:<\|python_tag\|>)?\s*")
_BLANKS: Final = re.compile(r"\s*")
_BETWEEN: Final = re.compile(r"[\s;]*")
_LONGEST_TOKEN: Final = 40
_DEEPEST: Final = 32
"""Most levels of lists and objects within a call."""


class Call(NamedTuple):
    """A call of a tool. ``arguments`` is any JSON value; `ToolEnv` accepts objects."""

    name: str
    arguments: Any


def write_calls(calls: Sequence[Call | tuple[str, Any]]) -> str:
    """Returns calls as the action of an environment."""
    listed = [{"name": name, "arguments": arguments} for name, arguments in calls]
    return _json(listed)


def read_calls(action: str) -> tuple[Call, ...]:
    """Returns the calls of an action, which may also be one call without a list.

    Any string is legal; the result is empty for a string that is no list of calls.
    """
    if not action.lstrip().startswith(("[", "{")):
        return ()
    try:
        value = read_value(action)
    except ValueError:
        return ()
    calls = [as_call(each) for each in (value if isinstance(value, list) else [value])]
    return tuple(call for call in calls if call) if all(calls) else ()


def shown_calls(action: str) -> str:
    """Returns an action for people: ``find_order(id=7); refund(id=7)`` for calls."""
    shown = []
    for name, arguments in read_calls(action):
        given = arguments.items() if isinstance(arguments, dict) else [("", arguments)]
        values = (f"{key}={_json(value)}" if key else _json(value) for key, value in given)
        shown.append(f"{name}({', '.join(values)})")
    return "; ".join(shown) or action


def as_call(value: Any) -> Call | None:
    """Returns a JSON object as a call; None if it has no name, or a part that no tool may get.

    Llama 3 writes ``parameters`` in place of ``arguments``. A call without arguments gets an empty
    object. Refused are strings with control characters or surrogates, and deep nesting.
    """
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        return None
    arguments = value.get("arguments", value.get("parameters", {}))
    return Call(value["name"], arguments) if _is_sound([value["name"], arguments]) else None


def read_value(text: str) -> Any:
    """Returns the value of a JSON text.

    Raises:
        ValueError: If the text is not JSON, or has a part that no tool may get.
    """
    try:
        value = _JSON.decode(text)
    except RecursionError:
        raise ValueError("the value is nested too deeply") from None
    if not _is_sound(value):
        raise ValueError("the value has control characters, or is nested too deeply")
    return value


def read_tool_calls(response: str) -> Reading:
    """Reads all calls of a response, in linear time; the span is from the first to the last call.

    A response with an incomplete call, or with a call that is no JSON, has no readable action.
    """
    calls, span = _calls(response)
    sound = [call for call in calls if call is not None]
    return NO_ACTION if len(sound) < len(calls) or not calls else Reading(write_calls(sound), span)


def read_tool_calls_or_text(response: str) -> Reading:
    """Reads all calls of a response; the action of a response without calls is its text."""
    if _calls(response)[0]:
        return read_tool_calls(response)
    text = response.rstrip()
    if text.endswith("|>") and "<|" in text[-_LONGEST_TOKEN:]:  # the end token of the model
        text = text[: text.rindex("<|")].rstrip()
    start = _after(_BLANKS, text, 0)
    return Reading(text[start:], (start, len(text))) if text[start:] else NO_ACTION


def write_tags(thought: str, action: str) -> str:
    """Writes the calls of an action as Qwen and Hermes do, without a thought."""
    return _written(action, f'{_OPEN}\n{{"name": %s, "arguments": %s}}\n{_CLOSE}', "\n")


def write_functions(thought: str, action: str) -> str:
    """Writes the calls of an action as Qwen 3.5 and Qwen3-Coder do, without a thought."""
    calls = [call for call in read_calls(action) if isinstance(call.arguments, dict)]
    return "\n".join(map(_function, calls)) or action


def write_objects(thought: str, action: str) -> str:
    """Writes the calls of an action as Llama 3 does, without a thought."""
    return _written(action, '{"name": %s, "parameters": %s}', "; ")


def _written(action: str, form: str, between: str) -> str:
    calls = [form % (_json(call.name), _json(call.arguments)) for call in read_calls(action)]
    return between.join(calls) or action


def _calls(response: str) -> tuple[list[Call | None], tuple[int, int]]:
    """The calls of a response, None for each that is broken; and the span of all."""
    calls: list[Call | None] = []
    if _OPEN not in response:
        first = end = _after(_BLANKS, response, max(response.find(_PYTHON), 0))
        start = _after(_START, response, first)
        while response.startswith("{", start):
            call, end = _call_at(response, start)
            calls.append(call)
            start = _after(_BETWEEN, response, end)
        return calls, (first, end)
    first = end = 0
    while (opening := response.find(_OPEN, end)) >= 0:
        end = opening + len(_OPEN)
        start = _after(_BLANKS, response, end)
        if response.startswith(("{", "<function="), start):  # else the text is about the tag
            first = first if calls else opening
            read = _call_at if response[start] == "{" else _function_at
            call, end = read(response, start)
            end = _after(_BLANKS, response, end)
            calls.append(call if response.startswith(_CLOSE, end) else None)
            end += len(_CLOSE)
    return calls, (first, end)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _after(pattern: re.Pattern[str], text: str, start: int) -> int:
    match = pattern.match(text, start)
    return match.end() if match else start


def _call_at(text: str, start: int) -> tuple[Call | None, int]:
    """The call of a JSON object within a text, and the end of the object."""
    try:
        value, end = _JSON.raw_decode(text, start)
    except (ValueError, RecursionError):
        return None, len(text)
    return as_call(value), end


def _function_at(text: str, start: int) -> tuple[Call | None, int]:
    """The call of a function in tags within a text, and its end."""
    function = _FUNCTION.match(text, start)
    if function is None:
        return None, len(text)
    end = function.end()
    arguments = []
    while parameter := _PARAMETER.match(text, end):
        closing = text.find(_PARAMETER_END, parameter.end())
        if closing < 0:
            return None, len(text)
        arguments.append((parameter[1], text[parameter.end() : closing].removesuffix("\n")))
        end = _after(_BLANKS, text, closing + len(_PARAMETER_END))
    if not text.startswith(_FUNCTION_END, end):
        return None, len(text)
    end += len(_FUNCTION_END)
    try:
        return as_call({"name": function[1], "arguments": _object(arguments)}), end
    except ValueError:
        return None, end


def _function(call: Call) -> str:
    """A call as Qwen's chat templates write it: Python's text of numbers, and JSON of lists."""
    lines = [_OPEN, f"<function={call.name}>"]
    for name, value in call.arguments.items():
        text = _json(value) if isinstance(value, (list, dict)) else str(value)
        lines += [f"<parameter={name}>", text, _PARAMETER_END]
    return "\n".join([*lines, _FUNCTION_END, _CLOSE])


def _is_sound(value: Any) -> bool:
    level = [value]
    for _ in range(_DEEPEST):
        deeper: list[Any] = []
        for part in level:
            if isinstance(part, dict):
                deeper += [*part.keys(), *part.values()]
            elif isinstance(part, list):
                deeper += part
            elif isinstance(part, str) and as_action(part) != part:
                return False
        if not deeper:
            return True
        level = deeper
    return False


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("a key is repeated")
    return value


def _number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is no finite number")
    return number


_JSON: Final = json.JSONDecoder(
    object_pairs_hook=_object, parse_float=_number, parse_constant=_number
)
TOOL_CALLS: Final = ResponseFormat(
    read_tool_calls,
    stop=(),
    write=write_tags,
    instructions="Act only by calling tools. Several calls in a response are made in order.",
    tags=(_OPEN, _CLOSE),
    calls_tools=True,
)
"""The response format ``tool_calls``. Generation ends with the end token of the model."""
TOOL_CALLS_OR_TEXT: Final = replace(
    TOOL_CALLS,
    read=read_tool_calls_or_text,
    instructions="Call tools, which is done in order, or answer with a text.",
)
"""The response format ``tool_calls_or_text``, for agents that also speak, such as to a user."""
LLAMA_TOOL_CALLS: Final = replace(TOOL_CALLS, write=write_objects)
"""The response format ``llama_tool_calls``, which differs only in the responses that it writes."""
QWEN3_CODER_TOOL_CALLS: Final = replace(TOOL_CALLS, write=write_functions)
"""The response format ``qwen3_coder_tool_calls``, which differs in the same way."""
