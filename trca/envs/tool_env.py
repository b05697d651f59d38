"""`ToolEnv`: a text environment whose actions are calls of tools.

::

    class Clock(ToolEnv):
        tools = (tool("set", "Sets the clock.", {"hour": {"type": "integer"}}),)

        def call(self, name, arguments):
            self.hour = arguments["hour"]
            return f"It is {self.hour}."

An action is a JSON list of calls (see `trca.envs.tool_calls`). A language model writes the calls in
the form of its chat template; the response format ``tool_calls`` reads them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any, Final

from trca.common.names import nearest
from trca.envs.info import TextInfo
from trca.envs.text_env import Outcome, TextEnv
from trca.envs.tool_calls import Call, read_calls, read_value, write_calls

Tool = Mapping[str, Any]
"""A tool in OpenAI's form: ``{"type": "function", "function": {"name", "description",
"parameters"}}``; the parameters are a JSON schema of type ``object``."""

_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}
_LINKS: Final = 8
"""Largest depth of references between schemas that is followed; a cycle has no end."""
_PYTHON_WORDS: Final = {"True": "true", "False": "false", "None": "null"}
"""Words of Python that models write in place of JSON."""


class ToolError(Exception):
    """A call that fails by a fault of the agent; the agent reads the message."""


class ToolEnv(TextEnv):
    """The base class of environments with tools.

    A subclass writes `tools`, `call`, ``task_ids``, ``start_task`` and ``instruction``. An action
    may have several calls: each is carried out in order until the episode ends, and the observation
    joins their results. Calls that do not fit the schema of their tool change nothing, and their
    result is an error that the agent can read. A string in place of another type, such as "7" for a
    number, becomes the value if the schema allows no strings: some models write all arguments as
    text. The adapter reads the action with the values.

    ``info`` also has ``tools``, and after a step ``tool_results``: one text per call.

    The outcomes of several calls become one: rewards add up, also by role, the last call that
    states ``won`` or ``score`` decides, a milestone of any call is a milestone, and the action is
    accepted if all its calls are.
    """

    @property
    @abstractmethod
    def tools(self) -> Sequence[Tool]:
        """The tools of the current task, from ``reset`` to the end of the episode.

        Two tools with one name, or a tool of another form, are a ``ValueError`` of ``reset``.
        """

    @abstractmethod
    def call(self, name: str, arguments: dict[str, Any]) -> Outcome | str:
        """Carries out a call whose arguments fit the tool; a text is an outcome without reward.

        Raises:
            ToolError: If the call fails by a fault of the agent. Any other exception makes the
                rollout missing.
        """

    def message(self, text: str) -> Outcome:
        """Answers an action without a call; by default with an error. The text may be empty.

        A subclass whose agent also speaks, such as to a user, overrides this method.
        """
        names = ", ".join(self._by_name)
        return Outcome(f"There is no call. Call one of the tools: {names}.", accepted=False)

    def take_action(self, action: str) -> Outcome:
        """Carries out the calls of an action in order, until the episode ends."""
        calls = read_calls(action)
        if not calls:
            self._results: tuple[str, ...] = ()
            return self.message(action)
        outcomes: list[Outcome] = []
        for call in calls:
            outcomes.append(self._outcome(call))
            if outcomes[-1].terminated or outcomes[-1].truncated:
                break
        self._results = tuple(outcome.observation for outcome in outcomes)
        last = outcomes[-1]
        milestones = [each.milestone for each in outcomes if each.milestone is not None]
        games = [each.rewards for each in outcomes if each.rewards is not None]
        return Outcome(
            observation="\n\n".join(self._results),
            reward=sum(each.reward for each in outcomes),
            terminated=last.terminated,
            truncated=last.truncated,
            accepted=all(each.accepted for each in outcomes),
            won=next((each.won for each in outcomes[::-1] if each.won is not None), None),
            score=next((each.score for each in outcomes[::-1] if each.score is not None), None),
            milestone=any(milestones) if milestones else None,
            rewards={role: sum(each.get(role, 0.0) for each in games) for role in games[-1]}
            if games
            else None,
        )

    def _as_action(self, action: str) -> str:
        action = super()._as_action(action)
        calls = read_calls(action)
        typed = tuple(_with_types(call, self._by_name) for call in calls)
        return action if typed == calls else write_calls(typed)

    def _outcome(self, call: Call) -> Outcome:
        try:
            check_call(call, self._by_name)
            answer = self.call(call.name, call.arguments)
        except ToolError as error:
            return Outcome(f"Error: {error}", accepted=False)
        if not isinstance(answer, str | Outcome):
            raise TypeError(f"call({call.name!r}) gave {answer!r:.60}: return a text or an Outcome")
        return Outcome(answer) if isinstance(answer, str) else answer

    def _info(self, admissible: Sequence[str]) -> TextInfo:
        info = super()._info(admissible)
        if self._steps == 0:
            self._by_name = _checked(self.tools)
            self._results = ()
        info["tools"], info["tool_results"] = tuple(self._by_name.values()), self._results
        return info


def tool(
    name: str,
    description: str,
    properties: Mapping[str, Mapping[str, Any]] | None = None,
    required: Sequence[str] | None = None,
) -> Tool:
    """Returns a tool with named arguments, each with its JSON schema; by default all required."""
    fields = dict(properties or {})
    parameters = {
        "type": "object",
        "properties": fields,
        "required": list(fields) if required is None else required,
    }
    about = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": about}


def _checked(tools: Sequence[Tool]) -> dict[str, Tool]:
    """The tools by name; refuses a tool whose calls would raise other errors than `ToolError`."""
    by_name: dict[str, Tool] = {}
    for each in tools:
        try:
            name = each["function"]["name"]
            if not isinstance(name, str):
                raise TypeError("its name is not a string")
            schema = _schema(each)
            fields, needed = schema.get("properties") or {}, schema.get("required") or ()
            if isinstance(needed, str) or (_is_closed(schema) and not set(needed) <= fields.keys()):
                raise TypeError(f"required is {needed!r}: give a list of names of properties")
            for arguments in ({}, *({field: None} for field in fields)):
                with suppress(ToolError):
                    check_call(Call(name, arguments), {name: each})
        except (AttributeError, KeyError, TypeError) as error:
            form = "write it with trca.envs.tool"
            raise ValueError(f"the tool {each!r:.200} is malformed ({error!r}): {form}") from None
        if name in by_name:
            raise ValueError(f"two tools have the name {name!r}: rename one")
        by_name[name] = each
    return by_name


def check_call(call: Call, tools: Mapping[str, Tool]) -> None:
    """Checks a call against the tools by name: names, and types and choices of arguments.

    Schemas within an argument are left to the tool.

    Raises:
        ToolError: If the call does not fit. The message names the fix.
    """
    if call.name not in tools:
        raise ToolError(f"unknown tool {call.name[:200]!r}: {nearest(call.name, tools)}")
    schema = _schema(tools[call.name])
    fields, arguments = schema.get("properties") or {}, call.arguments
    if not isinstance(arguments, dict):
        raise ToolError(f"the arguments of {call.name} are {arguments!r:.60}: give an object")
    for name, value in arguments.items():
        if name in fields:
            _check_value(f"the argument {name!r} of {call.name}", value, fields[name], schema)
        elif _is_closed(schema):
            hint = nearest(name, fields)
            raise ToolError(f"{call.name} has no argument {name[:200]!r}: {hint}")
    for name in schema.get("required") or ():
        if name not in arguments:
            raise ToolError(f"{call.name} lacks the argument {name!r}: add it")


def _schema(tool: Tool) -> dict[str, Any]:
    return tool["function"].get("parameters") or {}


def _is_closed(schema: Mapping[str, Any]) -> bool:
    """Whether a tool takes its properties only, as without ``additionalProperties``."""
    return schema.get("additionalProperties", False) is False


def _check_value(place: str, value: Any, schema: Any, root: Mapping[str, Any]) -> None:
    schema = _followed(schema, root)
    kinds, choices = _kinds(schema, root), _choices(schema)
    if kinds and not _fits(value, kinds):
        raise ToolError(f"{place} is {value!r:.60}: give a value of type {' or '.join(kinds)}")
    if choices is not None and value not in choices:
        raise ToolError(f"{place} is {value!r:.60}: {nearest(value, choices)}")


def _with_types(call: Call, tools: Mapping[str, Tool]) -> Call:
    """The call with values in place of strings, where the schema allows no strings."""
    if call.name not in tools or not isinstance(call.arguments, dict):
        return call
    schema = _schema(tools[call.name])
    fields, given = schema.get("properties") or {}, call.arguments.items()
    kinds = {name: _kinds(fields.get(name), schema) for name, _ in given}
    return call._replace(arguments={name: _value(each, kinds[name]) for name, each in given})


def _value(given: Any, kinds: Sequence[str]) -> Any:
    if not isinstance(given, str) or not kinds or "string" in kinds:
        return given
    text = given.strip()
    try:
        value = read_value(_PYTHON_WORDS.get(text, text))
    except ValueError:
        return given
    return value if _fits(value, kinds) else given


def _kinds(schema: Any, root: Mapping[str, Any], links: int = _LINKS) -> list[str]:
    """The types that a schema in the parameters of a tool permits; empty for any."""
    schema = _followed(schema, root)
    if declared := schema.get("type"):
        return [declared] if isinstance(declared, str) else list(declared)
    if parts := schema.get("anyOf") or schema.get("oneOf"):
        kinds = [_kinds(part, root, links - 1) if links else [] for part in parts]
        return list(dict.fromkeys(chain(*kinds))) if all(kinds) else []
    choices = _choices(schema) or []
    return [kind for kind in _TYPES if any(_fits(value, [kind]) for value in choices)]


def _choices(schema: Mapping[str, Any]) -> Sequence[Any] | None:
    return [schema["const"]] if "const" in schema else schema.get("enum")


def _followed(schema: Any, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """A schema, or the definition that it names; empty without an end of the references."""
    for _ in range(_LINKS):
        if not isinstance(schema, dict) or "$ref" not in schema:
            break
        at: Any = {"#": root}
        for part in str(schema["$ref"]).split("/"):
            at = at.get(part) if isinstance(at, dict) else None
        schema = at
    return schema if isinstance(schema, dict) and "$ref" not in schema else {}


def _fits(value: Any, kinds: Sequence[str]) -> bool:
    return any(
        kind not in _TYPES
        or (isinstance(value, _TYPES[kind]) and isinstance(value, bool) <= (kind == "boolean"))
        for kind in kinds
    )
