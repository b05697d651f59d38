"""Messages between agents: cleaning before use, and facts for judging them.

A language model writes the messages, so they are untrusted input. `clean` removes control and
format characters, replaces white space by single blanks (a newline could fake a line of another
speaker), and limits the length.

A team declares which kinds of names its texts contain:

===============  ==============================================================================
numbered         a word and a number: ``desk 1``
bracketed        text in brackets: ``[red]``; not the words of a search or an answer
capitalised      words that begin with a capital, except a single word that begins a sentence;
                 and numbers of four digits
===============  ==============================================================================
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

from trca.rubric import Judge, RubricLibrary

NameKind = Literal["numbered", "bracketed", "capitalised"]
LIBRARY: Final = Path(__file__).with_name("messages.yaml")
"""The rubric library of messages."""
_NAMES: Final[dict[NameKind, re.Pattern[str]]] = {
    "numbered": re.compile(r"\b([a-zA-Z]{1,40} \d{1,4})\b"),
    "bracketed": re.compile(r"(?<!search)(?<!answer)\[([^\[\]<>]{1,200})\]"),
    "capitalised": re.compile(r"\b([A-Z][\w'-]{0,60}(?: [A-Z][\w'-]{0,60}){0,8}|\d{4})\b"),
}
_WORD: Final = re.compile(r"\w+")


def clean(text: str, limit: int) -> tuple[str, bool]:
    """A text of an agent as a message on one line of at most ``limit`` characters.

    Also returns whether it was malformed: it contained control characters or was cut.
    """
    head = text[: 4 * limit + 100]  # bounds the cost of a long text
    printable = "".join(c if c.isspace() or unicodedata.category(c)[0] != "C" else "" for c in head)
    line = " ".join(printable.split())
    bad = len(printable) < len(head) or len(head) < len(text) or len(line) > limit
    return line[:limit].rstrip(), bad


def names_in(text: str, kinds: Iterable[NameKind]) -> set[str]:
    """The names of some kinds in a text, in lower case; see the module docstring."""
    names = set[str]()
    for kind in kinds:
        for match in _NAMES[kind].finditer(text):
            name = match[1]
            if kind == "capitalised" and " " not in name:
                before = text[: match.start()].rstrip()
                if before == "" or before[-1] in ".!?:":  # the word begins a sentence
                    continue
            names.add(" ".join(name.lower().split()))
    return names


@dataclass(frozen=True, slots=True)
class MessageFacts:
    """The facts of a message, and of its readers' actions until the sender's next turn.

    The facts contain no success, no score and nothing that no agent was shown.

    Attributes:
        empty: Whether the clean message is empty.
        malformed: Whether cleaning removed control characters or cut the message.
        read: Whether a role that sees messages had a turn after it.
        repeats_task: Whether all its words are in the instruction, and at least half of the
            instruction's words are in it.
        names: Number of names in the message.
        absent: Number of its names that the sender was not shown.
        told: Number of its names that the sender was shown and at least one reader was not.
        fresh: Number of its names that were new to the sender since its last message.
        task_names: Number of its names that also occur in the instruction, as names or as words.
        proposes: Whether it contains an admissible action, word for word.
        acts: Number of actions of its readers.
        heeded: Number of these actions that share a name with the message or occur in it.
        carried_out: Number of the heeded actions that the environment carried out.
        revealing: Number of the carried-out actions that showed the reader a new name.
        followed: Number of accepted actions that occur in the message word for word.
    """

    empty: bool = False
    malformed: bool = False
    read: bool = False
    repeats_task: bool = False
    names: int = 0
    absent: int = 0
    told: int = 0
    fresh: int = 0
    task_names: int = 0
    proposes: bool = False
    acts: int = 0
    heeded: int = 0
    carried_out: int = 0
    revealing: int = 0
    followed: int = 0


@dataclass(frozen=True)
class MessageBinding:
    """The empty binding of messages."""


@cache
def message_library() -> RubricLibrary:
    """The library that judges messages."""
    return RubricLibrary.load(LIBRARY)


def message_judge() -> Judge:
    """A judge for messages."""
    return Judge(message_library(), MessageFacts, MessageBinding)


@dataclass
class Message:
    """A sent message and the actions of its readers.

    Attributes:
        text: The clean message.
        malformed: Whether cleaning changed it.
        kinds: The kinds of names to look for.
        shown: Names that the sender was shown.
        fresh: Names that are new to the sender since its last message.
        known: Names that each reader was shown, by role.
        acts: The actions of the readers. For each, whether the environment carried it out, and
            whether it showed the reader a new name.
        read: Whether a reader had a turn.
    """

    text: str
    malformed: bool
    kinds: Sequence[NameKind]
    instruction: str
    shown: Collection[str]
    fresh: Collection[str]
    known: dict[str, Collection[str]]
    admissible: Sequence[str]
    acts: list[tuple[str, bool, bool]] = field(default_factory=list)
    read: bool = False

    def facts(self) -> MessageFacts:
        """The facts up to now."""
        lowered, names = self.text.lower(), names_in(self.text, self.kinds)
        seen = names & set(self.shown)
        words = set(_WORD.findall(lowered))
        task_words = set(_WORD.findall(self.instruction.lower()))
        task_names = names_in(self.instruction, self.kinds)
        followed = [_stands_in(action, lowered) for action, _, _ in self.acts]
        heeded = [
            verbatim or bool(names & names_in(action, self.kinds))
            for (action, _, _), verbatim in zip(self.acts, followed, strict=True)
        ]
        done = list(zip(self.acts, heeded, followed, strict=True))
        return MessageFacts(
            empty=not self.text,
            malformed=self.malformed,
            read=self.read and bool(self.text),
            repeats_task=bool(words) and words <= task_words and 2 * len(words) >= len(task_words),
            names=len(names),
            absent=len(names) - len(seen),
            told=max([len(seen - set(shown)) for shown in self.known.values()], default=0),
            fresh=len(names & set(self.fresh)),
            task_names=len([n for n in names if n in task_names or set(n.split()) & task_words]),
            proposes=any(_stands_in(action, lowered) for action in self.admissible),
            acts=len(self.acts),
            heeded=sum(heeded),
            carried_out=sum(h and accepted for (_, accepted, _), h, _ in done),
            revealing=sum(h and accepted and new for (_, accepted, new), h, _ in done),
            followed=sum(f and accepted for (_, accepted, _), _, f in done),
        )


def _stands_in(action: str, lowered: str) -> bool:
    """Whether a message in lower case contains an action, bounded by non-word characters."""
    words = " ".join(action.lower().split())
    return words != "" and re.search(rf"(?<!\w){re.escape(words)}(?!\w)", lowered) is not None


class ShownNames:
    """The names that each role has been shown in this episode, and its new names.

    A name is new to a role from its first display until the role's next message.
    """

    def __init__(self, kinds: Sequence[NameKind], sees: Mapping[str, Collection[str]]) -> None:
        self._kinds = kinds
        self._sees = sees
        self._shown = {role: set[str]() for role in sees}
        self._fresh = {role: set[str]() for role in sees}

    def shown(self, role: str) -> frozenset[str]:
        """The names that a role has been shown."""
        return frozenset(self._shown[role])

    def take_fresh(self, role: str) -> frozenset[str]:
        """Returns the names that are new to a role, and clears this set."""
        fresh = frozenset(self._fresh[role])
        self._fresh[role].clear()
        return fresh

    def show(self, role: str, names: set[str]) -> None:
        """Shows names to a role."""
        self._fresh[role] |= names - self._shown[role]
        self._shown[role] |= names

    def show_state(self, instruction: str, observation: str, info: Mapping[str, Any]) -> None:
        """Shows each role the parts of the current state that the role sees."""
        texts_by_sight = {
            "task": [instruction],
            "observation": [observation],
            "memory": [info["memory"]],
            "admissible": info["admissible_actions"],
        }
        names = {
            sight: set[str]().union(*(names_in(text, self._kinds) for text in texts))
            for sight, texts in texts_by_sight.items()
        }
        for role, sights in self._sees.items():
            for sight in sights:
                self.show(role, names.get(sight, set()))
