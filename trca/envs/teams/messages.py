"""Messages between agents: cleaned before anyone reads them, and judged by what came of them.

A message is written by a language model, so it is bad input until it was cleaned: control and
format characters go, white space (a newline could fake another speaker's line) becomes one blank,
and length has a limit.

How a text names things is one or more of these kinds:

===============  ==============================================================================
numbered         a word and a number: ``desk 1``
bracketed        what stands in brackets: ``[red]``; not the words of a search or an answer
capitalised      words that begin with a capital, but for a single one that begins a sentence;
                 and numbers of four digits
===============  ==============================================================================
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final, Literal

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
    """Cleans a message.

    Args:
        text: What an agent wrote.
        limit: The most characters.

    Returns:
        The message, on one line; and whether it held what is no text, or was cut.
    """
    head = text[: 4 * limit + 100]  # what is cut anyway costs nothing
    printable = "".join(c if c.isspace() or unicodedata.category(c)[0] != "C" else "" for c in head)
    line = " ".join(printable.split())
    bad = len(printable) < len(head) or len(head) < len(text) or len(line) > limit
    return line[:limit].rstrip(), bad


def names_in(text: str, kinds: Iterable[NameKind]) -> set[str]:
    """The names in a text, in lower case."""
    found = set[str]()
    for kind in kinds:
        for match in _NAMES[kind].finditer(text):
            name = match[1]
            if kind == "capitalised" and " " not in name and _begins_sentence(text, match.start()):
                continue
            found.add(" ".join(name.lower().split()))
    return found


@dataclass(frozen=True, slots=True)
class MessageFacts:
    """The observable facts of a message and of what its readers did until its sender's next turn.

    There is no field for success, the score, or what no agent was shown.

    Attributes:
        empty: Whether nothing is left of it once it is clean.
        malformed: Whether it had to be cleaned of control characters, or cut.
        read: Whether an agent that sees messages had a turn with it.
        repeats_task: Whether it says words of the instruction alone, and at least half of them.
        names: How many things it names.
        absent: How many of them its sender was not shown.
        told: How many of them its sender was shown and one of its readers was not.
        fresh: How many of them its sender was shown since its last message.
        task_names: How many of them the instruction has too, as names or as words.
        proposes: Whether it has the words of an action that was admissible.
        acts: How many actions its readers took.
        heeded: How many of these name what it names, or are proposed in it.
        carried_out: How many of the heeded were accepted.
        revealing: How many of these showed a name for the first time.
        followed: How many of them are proposed in it word for word.
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
    """What messages are bound to: nothing."""


@cache
def message_library() -> RubricLibrary:
    """The library that judges messages."""
    return RubricLibrary.load(LIBRARY)


def message_judge() -> Judge:
    """A judge of messages."""
    return Judge(message_library(), MessageFacts, MessageBinding)


@dataclass
class Message:
    """A message on its way, from its sender's turn to the next.

    Attributes:
        text: The message, clean.
        malformed: Whether it was not.
        kinds: How it names things.
        instruction: The task in words.
        shown: Names that its sender was shown.
        fresh: Those of them that it was shown since its last message.
        known: Names that each reader was shown, by role.
        admissible: The actions that were admissible.
    """

    text: str
    malformed: bool
    kinds: Sequence[NameKind]
    instruction: str
    shown: Collection[str]
    fresh: Collection[str]
    known: dict[str, Collection[str]]
    admissible: Sequence[str]
    _acts: list[tuple[str, bool, bool]] = field(default_factory=list)
    _read: bool = False

    def was_read(self) -> None:
        """A reader has its turn."""
        self._read = True

    def answered(self, action: str, accepted: bool, revealing: bool) -> None:
        """A reader took an action.

        Args:
            action: The action.
            accepted: Whether the environment carried it out.
            revealing: Whether it showed a name for the first time.
        """
        self._acts.append((action, accepted, revealing))

    def facts(self) -> MessageFacts:
        """Its facts, up to now."""
        lowered, names = self.text.lower(), names_in(self.text, self.kinds)
        seen = names & set(self.shown)
        words, task = set(_words(self.text)), set(_words(self.instruction))
        task_names = names_in(self.instruction, self.kinds)
        followed = [_stands_in(action, lowered) for action, _, _ in self._acts]
        heeded = [
            letter or bool(names & names_in(action, self.kinds))
            for (action, _, _), letter in zip(self._acts, followed, strict=True)
        ]
        done = [(a, h, f) for a, h, f in zip(self._acts, heeded, followed, strict=True)]
        return MessageFacts(
            empty=not self.text,
            malformed=self.malformed,
            read=self._read and bool(self.text),
            repeats_task=bool(words) and words <= task and 2 * len(words) >= len(task),
            names=len(names),
            absent=len(names) - len(seen),
            told=max([len(seen - set(known)) for known in self.known.values()], default=0),
            fresh=len(names & set(self.fresh)),
            task_names=len([n for n in names if n in task_names or set(n.split()) & task]),
            proposes=any(_stands_in(action, lowered) for action in self.admissible),
            acts=len(self._acts),
            heeded=sum(heeded),
            carried_out=sum(h and accepted for (_, accepted, _), h, _ in done),
            revealing=sum(h and accepted and new for (_, accepted, new), h, _ in done),
            followed=sum(f and accepted for (_, accepted, _), _, f in done),
        )


def _begins_sentence(text: str, start: int) -> bool:
    before = text[:start].rstrip()
    return before == "" or before[-1] in ".!?:"


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _stands_in(action: str, lowered: str) -> bool:
    """Whether an action stands in a message in lower case, as whole words."""
    wanted = " ".join(action.lower().split())
    return wanted != "" and re.search(rf"(?<!\w){re.escape(wanted)}(?!\w)", lowered) is not None
