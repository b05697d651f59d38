"""Asks a model to write a rubric library for an environment (the paper's Appendix B).

The prompt contains an agent's view only: the interface in words, the facts of a transition, the
binding of an instruction, the observations after a few random actions, and the language of
conditions. It contains no trajectory of a policy, no outcome, no right answer and no result. The
reply is JSON of a fixed schema and passes the checks of all libraries. After an invalid reply, the
next prompt contains its first errors, until a reply is valid::

    interface = Interface("me/Game-v0", "A game of ...", ..., Facts, Binding)
    written = generate(interface, lambda prompt, schema: endpoint.ask(prompt, ...).after_thought)
    written.library.operators

A finished library needs no model: judging is deterministic.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import yaml
from pydantic import ValidationError

from trca.common.errors import short_line
from trca.common.strict_yaml import MAX_BYTES, packaged
from trca.rubric.conditions import RubricError, Term, field_meanings, field_terms
from trca.rubric.judge import Judge
from trca.rubric.library import CATEGORIES, Operator, Provenance, RubricLibrary

OPERATORS_PER_CATEGORY: Final = 5
"""Number of operators of a category that a model writes, as in the paper."""
ATTEMPTS: Final = 4
"""Largest number of replies."""
_MOST_ERRORS: Final = 20
"""Errors of a reply in the next prompt."""
_LONGEST_ERROR: Final = 300
"""Characters of an error in the next prompt and in the library's provenance."""
_LONGEST_REPLY: Final = 30_000
"""Characters of an invalid reply in the next prompt."""
_LONGEST_TEXT: Final = 1500
"""Characters of one text of the environment in the prompt."""
_NAMES: Final = {"type": "array", "items": {"type": "string"}}
_PROPERTIES: Final[dict[str, Any]] = {
    "id": {"type": "string"},
    "category": {"type": "string", "enum": list(CATEGORIES)},
    "description": {"type": "string"},
    "reads": _NAMES,
    "binds": _NAMES,
    "condition": {"type": "string"},
}
SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "operators": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": _PROPERTIES,
                "required": list(_PROPERTIES),
                "additionalProperties": False,
            },
        }
    },
    "required": ["operators"],
    "additionalProperties": False,
}
"""JSON schema of a reply."""

_TEXTS: Final[dict[str, str]] = packaged(__package__, "generation.yaml")


@dataclass(frozen=True)
class Interface:
    """The interface of an environment, as an agent sees it.

    ``description`` is the interface in words. Instruction, observation and admissible actions are
    the first state of a task; ``answers`` are random actions with the observations after them.
    """

    environment: str
    description: str
    instruction: str
    observation: str
    admissible: Sequence[str]
    answers: Sequence[tuple[str, str]]
    facts_type: type
    binding_type: type

    @property
    def prompt(self) -> str:
        """The prompt of the first reply."""
        return _TEXTS["prompt"].format(
            count=OPERATORS_PER_CATEGORY,
            total=OPERATORS_PER_CATEGORY * len(CATEGORIES),
            environment=self.environment,
            description=self.description,
            example="\n".join(
                _short(each)
                for each in (self.instruction, self.observation, " | ".join(self.admissible))
            ),
            answers="\n".join(f"> {_short(a)}\n{_short(b)}" for a, b in self.answers) or "(none)",
            facts=_fields("facts", self.facts_type),
            binding=_fields("task", self.binding_type),
        )


@dataclass(frozen=True)
class Written:
    """A library that a model wrote, the first prompt, and the first error of each invalid reply."""

    library: RubricLibrary
    prompt: str
    refused: tuple[str, ...]


def generate(
    interface: Interface,
    ask: Callable[[str, dict[str, Any]], str],
    attempts: int = ATTEMPTS,
    tell: Callable[[int, str], None] = lambda number, error: None,
) -> Written:
    """Asks a model for a library until a reply is valid.

    Args:
        interface: The interface of the environment.
        ask: Sends a prompt with the JSON schema of the reply, and returns the reply.
        attempts: Largest number of replies.
        tell: Progress callback: ``(number of the invalid reply, its first error)``.

    Raises:
        RubricError: If no reply is valid. The message has the last error.
    """
    prompt = interface.prompt
    refused: list[str] = []
    for number in range(1, attempts + 1):
        reply = ask(prompt, SCHEMA)
        library, errors = read_reply(reply, interface)
        if library is not None:
            return Written(library, interface.prompt, tuple(refused))
        errors = [short_line(error, _LONGEST_ERROR) for error in errors[:_MOST_ERRORS]]
        refused.append(errors[0])
        tell(number, errors[0])
        shown = "\n".join(f"- {error}" for error in errors)
        again = _TEXTS["again"].format(errors=shown, reply=reply[:_LONGEST_REPLY])
        prompt = interface.prompt + again
    raise RubricError(f"no reply of {attempts} is a library; the last one: {refused[-1]}")


def read_reply(reply: str, interface: Interface) -> tuple[RubricLibrary | None, list[str]]:
    """The library in a reply and an empty list, or None and all errors."""
    first, _, rest = (text := reply.strip()).partition("\n")
    if first.rstrip() in ("```", "```json") and rest.endswith("```"):  # a Markdown fence
        text = rest.removesuffix("```")
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        return None, [f"the reply is no JSON: {error}"]
    operators = data.get("operators") if isinstance(data, dict) else None
    if not isinstance(operators, list):
        return None, ['the reply is not an object with a list "operators"']
    terms = field_terms("facts", interface.facts_type)
    terms |= field_terms("task", interface.binding_type)
    counts = Counter(str(each.get("category")) for each in operators if isinstance(each, dict))
    errors = [
        f"{counts[category]} {category} operators: write {OPERATORS_PER_CATEGORY}"
        for category in CATEGORIES
        if counts[category] != OPERATORS_PER_CATEGORY
    ]
    errors += [error for each in operators for error in _faults(each, terms)]
    if errors:
        return None, errors
    ordered = sorted(operators, key=lambda each: CATEGORIES.index(each["category"]))
    try:
        library = RubricLibrary.parse(
            _dump({"environment": interface.environment, "operators": ordered}), "the reply"
        )
        Judge(library, interface.facts_type, interface.binding_type)
    except RubricError as error:
        return None, str(error).split("\n")
    return library, []


def as_yaml(library: RubricLibrary, provenance: Provenance) -> str:
    """The text of a library's file with provenance; parsing the text returns the same library.

    A prompt that makes the file larger than files of settings may be is left out; its hash stays.
    """
    data = library.model_copy(update={"provenance": provenance}).model_dump(
        mode="json", exclude={"operators": {"__all__": {"judge", "requires"}}}
    )
    data = {name: data[name] for name in ("environment", "provenance", "operators")}
    text = _dump(data)
    if len(text.encode()) <= MAX_BYTES:
        return text
    data["provenance"]["prompt"] = ""
    return _dump(data)


def _faults(data: Any, terms: dict[str, Term]) -> list[str]:
    name = data.get("id") if isinstance(data, dict) else data
    try:
        Operator.model_validate(data).check("library", terms)
    except ValidationError as error:
        return [
            f"operator {name!r}: {'.'.join(map(str, each['loc'])) or 'operator'}: {each['msg']}"
            for each in error.errors(include_url=False)
        ]
    except RubricError as error:
        return [str(error).removeprefix("library: ")]
    return []


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_TEXT else text[:_LONGEST_TEXT] + " ..."


def _fields(prefix: str, record: type) -> str:
    """The fields of a dataclass for the prompt: name, type, values and meaning."""
    meanings = field_meanings(record)
    lines = []
    for name, term in field_terms(prefix, record).items():
        allowed = f", one of {json.dumps(term.allowed)}" if term.allowed is not None else ""
        meaning = meanings.get(name.partition(".")[2], "")
        lines.append(f"- {name} ({term.kind}{allowed}): {meaning}".rstrip(": "))
    return "\n".join(lines) or "(none)"


class _Blocks(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    broken = any(character in text for character in "\x85\u2028\u2029")  # further line breaks
    style = '"' if broken else "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Blocks.add_representer(str, _text)


def _dump(data: Any) -> str:
    return yaml.dump(data, Dumper=_Blocks, sort_keys=False, allow_unicode=True, width=100)
