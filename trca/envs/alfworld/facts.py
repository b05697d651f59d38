"""The observable facts of an ALFWorld transition: what the adapter g_b reports (Appendix A.4).

Everything here is read off the agent's own command, the text that answered it, and the commands
offered. There is no field for success, for the score, for what was not seen, or for the future.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from trca.envs.alfworld.binding import State

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
"""What a command asks for; blank when it has the form of no command."""


@dataclass(frozen=True, slots=True)
class ALFWorldFacts:
    """Facts of one transition.

    Types are words such as ``mug``, not instances such as ``mug 1``. A type that the task does not
    name is ``other`` where one is asked for, and absent from lists: no operator can need it, and
    transitions that mean the same for the task have equal facts.

    Attributes:
        parsed: Whether a command could be read from the response.
        verb: What the command asks for.
        available: Whether, as far as was observed, all that the command names is there to act on:
            in hand, at the agent's place, or (for ``goto``) in the room.
        accepted: Whether the action was carried out.
        repeated: Whether what can be observed (place, hand, open receptacles, states, positions and
            all that is known) is now as it was at an earlier time of the episode.
        object_type: Type of the object the command names.
        receptacle_type: Type of the receptacle the command names.
        object_states: States the object named is known to have after the transition.
        gained_states: Those of them that were not known before it.
        new_objects: Types of the objects seen for the first time.
        new_places: Types of the receptacles arrived at for the first time.
        searched: Whether the contents of a receptacle were seen for the first time.
        located: Types of objects whose whereabouts (not in hand) were known before the transition.
        held_type: Type of the object in hand afterwards.
        held_states: States it is known to have.
        place_type: Type of the receptacle the agent is at afterwards.
        lamps: Types of the lamps known to be there.
        lit: Types of those that are on.
        alike_there: After a ``move``, objects of that type known in the receptacle.
        alike_elsewhere: After a ``move``, the most objects of that type known in another receptacle
            of that receptacle's type.
    """

    parsed: bool = True
    verb: Verb = ""
    available: bool = False
    accepted: bool = False
    repeated: bool = False
    object_type: str = ""
    receptacle_type: str = ""
    object_states: tuple[State, ...] = ()
    gained_states: tuple[State, ...] = ()
    new_objects: tuple[str, ...] = ()
    new_places: tuple[str, ...] = ()
    searched: bool = False
    located: tuple[str, ...] = ()
    held_type: str = ""
    held_states: tuple[State, ...] = ()
    place_type: str = ""
    lamps: tuple[str, ...] = ()
    lit: tuple[str, ...] = ()
    alike_there: int = 0
    alike_elsewhere: int = 0


@dataclass(frozen=True, slots=True)
class Command:
    """A command taken apart.

    Attributes:
        verb: What it asks for.
        object: The object it names, such as ``mug 1``, or blank.
        receptacle: The receptacle it names, or blank.
        tool: The knife of ``slice``, or blank.
    """

    verb: Verb = ""
    object: str = ""
    receptacle: str = ""
    tool: str = ""


_NAME = "[a-z]+ [0-9]+"
_FORMS: tuple[tuple[Verb, re.Pattern[str]], ...] = (
    ("goto", re.compile(rf"go to (?P<receptacle>{_NAME})")),
    ("open", re.compile(rf"open (?P<receptacle>{_NAME})")),
    ("close", re.compile(rf"close (?P<receptacle>{_NAME})")),
    ("take", re.compile(rf"take (?P<object>{_NAME}) from (?P<receptacle>{_NAME})")),
    ("move", re.compile(rf"move (?P<object>{_NAME}) to (?P<receptacle>{_NAME})")),
    ("heat", re.compile(rf"heat (?P<object>{_NAME}) with (?P<receptacle>{_NAME})")),
    ("clean", re.compile(rf"clean (?P<object>{_NAME}) with (?P<receptacle>{_NAME})")),
    ("cool", re.compile(rf"cool (?P<object>{_NAME}) with (?P<receptacle>{_NAME})")),
    ("slice", re.compile(rf"slice (?P<object>{_NAME}) with (?P<tool>{_NAME})")),
    ("use", re.compile(rf"use (?P<object>{_NAME})")),
    ("examine", re.compile(rf"examine (?P<object>{_NAME})")),
    ("look", re.compile("look")),
    ("inventory", re.compile("inventory")),
    ("help", re.compile("help")),
)
_THING = re.compile(rf"\ban? ({_NAME})")
_LONGEST = 200


def read_command(text: str) -> Command:
    """Takes a command apart; a text in the form of no command has a blank verb.

    ``examine`` names an object or a receptacle; what it names is given as the object.
    """
    return _read_command(text) if len(text) <= _LONGEST else Command()


@lru_cache(maxsize=8192)
def _read_command(text: str) -> Command:
    for verb, form in _FORMS:
        match = form.fullmatch(text)
        if match is not None:
            return Command(verb, **match.groupdict())
    return Command()


@lru_cache(maxsize=8192)
def things(text: str) -> tuple[str, ...]:
    """The names listed in an observation ("you see a mug 1, and a pen 2"), in its order."""
    return tuple(_THING.findall(text))


@lru_cache(maxsize=8192)
def kind(name: str) -> str:
    """The type of a named thing: ``mug`` for ``mug 1``, blank for a blank name."""
    return name.rpartition(" ")[0]
