"""Tool calls: actions of a `trca.envs.tool_env.ToolEnv`, as JSON.

The action of a response is a JSON list of its calls, always written in the same way::

    [{"name": "find_order", "arguments": {"id": 7}}, {"name": "refund", "arguments": {"id": 7}}]
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from trca.envs.text_env import as_action

_DEEPEST: Final = 32
"""Most levels of lists and objects within a call."""


class Call(NamedTuple):
    """A call of a tool. ``arguments`` is any JSON value; `ToolEnv` accepts objects."""

    name: str
    arguments: Any


def write_calls(calls: Sequence[Call | tuple[str, Any]]) -> str:
    """Returns calls as the action of an environment."""
    listed = [{"name": name, "arguments": arguments} for name, arguments in calls]
    return json.dumps(listed, ensure_ascii=False)


def read_calls(action: str) -> tuple[Call, ...]:
    """Returns the calls of an action, which may also be one call without a list.

    Any string is legal; the result is empty for a string that is no list of calls.
    """
    if not action.lstrip().startswith(("[", "{")):
        return ()
    try:
        value = _JSON.decode(action)
    except (ValueError, RecursionError):
        return ()
    calls = [as_call(each) for each in (value if isinstance(value, list) else [value])]
    return tuple(call for call in calls if call) if all(calls) else ()


def as_call(value: Any) -> Call | None:
    """Returns a JSON object as a call; None if it has no name, or a part that no tool may get.

    Llama 3 writes ``parameters`` in place of ``arguments``. A call without arguments gets an empty
    object. Refused are strings with control characters or surrogates, and deep nesting.
    """
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        return None
    arguments = value.get("arguments", value.get("parameters", {}))
    return Call(value["name"], arguments) if _is_sound([value["name"], arguments]) else None


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
