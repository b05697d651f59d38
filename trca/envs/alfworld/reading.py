"""Parses ALFWorld's actions, such as ``take mug 1 from desk 2``, and the names in observations."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

Verb = Literal[
    "",
    "goto",
    "open",
    "close",
    "take",
    "move",
    "heat",
    "clean",
    "cool",
    "slice",
    "use",
    "examine",
    "look",
    "inventory",
    "help",
]
"""The verb of an action; empty for a text that is not an ALFWorld action."""

NAME: Final = "[a-z]+ [0-9]+"
"""Regular expression of a name, such as ``mug 1``."""
_THING = re.compile(rf"\ban? ({NAME})")


@dataclass(frozen=True, slots=True)
class Action:
    """A parsed action: its verb and the names in it; ``tool`` is the knife of ``slice``."""

    verb: Verb = ""
    object: str = ""
    receptacle: str = ""
    tool: str = ""


_FORMS: tuple[tuple[Verb, re.Pattern[str]], ...] = (
    ("goto", re.compile(rf"go to (?P<receptacle>{NAME})")),
    ("open", re.compile(rf"open (?P<receptacle>{NAME})")),
    ("close", re.compile(rf"close (?P<receptacle>{NAME})")),
    ("take", re.compile(rf"take (?P<object>{NAME}) from (?P<receptacle>{NAME})")),
    ("move", re.compile(rf"move (?P<object>{NAME}) to (?P<receptacle>{NAME})")),
    ("heat", re.compile(rf"heat (?P<object>{NAME}) with (?P<receptacle>{NAME})")),
    ("clean", re.compile(rf"clean (?P<object>{NAME}) with (?P<receptacle>{NAME})")),
    ("cool", re.compile(rf"cool (?P<object>{NAME}) with (?P<receptacle>{NAME})")),
    ("slice", re.compile(rf"slice (?P<object>{NAME}) with (?P<tool>{NAME})")),
    ("use", re.compile(rf"use (?P<object>{NAME})")),
    ("examine", re.compile(rf"examine (?P<object>{NAME})")),
    ("look", re.compile("look")),
    ("inventory", re.compile("inventory")),
    ("help", re.compile("help")),
)
_LONGEST = 200


def read_action(text: str) -> Action:
    """Parses an action, without spaces around it. A text that is not an action gets an empty verb.

    The thing after ``examine``, an object or a receptacle, is returned as ``object``.
    """
    text = text.strip()
    return _read_action(text) if len(text) <= _LONGEST else Action()


@lru_cache(maxsize=8192)
def _read_action(text: str) -> Action:
    for verb, form in _FORMS:
        match = form.fullmatch(text)
        if match is not None:
            return Action(verb, **match.groupdict())
    return Action()


@lru_cache(maxsize=8192)
def things(text: str) -> tuple[str, ...]:
    """The names in an observation ("you see a mug 1, and a pen 2"), in order."""
    return tuple(_THING.findall(text))


@lru_cache(maxsize=8192)
def kind(name: str) -> str:
    """The type of a named thing: ``mug`` for ``mug 1``, empty for an empty name."""
    return name.rpartition(" ")[0]
