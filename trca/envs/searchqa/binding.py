"""The task binder of SearchQA: parses the question (paper, Appendix A.2).

    >>> bind("In what year was the director of Ran born?")
    SearchQABinding(entity='Ran', entities=('Ran',), relation=('direct', 'born'), ...)

The binder reads the question only; answers, aliases and gold passages never reach it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

from trca.envs.searchqa.english import (
    CUES,
    FILLER,
    LIMITING,
    MONTHS,
    NUMBER_WORDS,
    names_asked,
    stems_of,
    words_of,
)

AnswerFormat = Literal["name", "date", "number", "choice", "yes or no"]

_BEFORE_CHOICE: Final = re.compile(
    r"[,:?]\s+(?!Jr|Sr)|\b(?:between|is|was|came|out of)\s+(?=[A-Z])"
)
_YES_NO: Final = re.compile(r"(?:is|are|was|were|do|does|did|has|have|had|can|could|will)\b")
_DATE: Final = re.compile(
    r"(?:.*\W)?(?:what|which)(?: (?:is|was|were|are))?(?: the)?(?: \w+){0,2}?"
    r" (?:year|date|month|day|decade|century)\b|(?!.*\b(?:who|which|what|where)\b)(?:.*\W)?when\b"
)
_NUMBER: Final = re.compile(
    r"\bhow (?:many|much|old|long|tall|far|high|big|large|deep|often)\b"
    r"|\bwhat (?:is|was|were|are)? ?(?:the )?(?:\w+ )?"
    r"(?:number|percentage|population|height|length|area|distance|age)\b"
)


@dataclass(frozen=True)
class SearchQABinding:
    """The requirements in a question. The defaults contain no requirement.

    `trca.envs.searchqa.english` defines the stems.

    Attributes:
        entity: The subject: the last name in the question, as written; empty without names.
        entities: All names in order, without repeats.
        relation: The requested relation: stems of the content words outside names and constraints,
            in order.
        bridge: The part of the relation that leads from the subject to the requested entity:
            ``teacher`` in "Where was the teacher of Ada born?" and in "Where was Ada's teacher
            born?".
        constraints: Years, numbers, superlatives and comparatives, in lower case.
        answer_format: The format of the answer.
        choices: The alternatives in the question.
    """

    entity: str = ""
    entities: tuple[str, ...] = ()
    relation: tuple[str, ...] = ()
    bridge: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    answer_format: AnswerFormat = "name"
    choices: tuple[str, ...] = ()


@lru_cache(maxsize=4096)
def bind(question: str) -> SearchQABinding:
    """Parses a question; any text is valid."""
    text = " ".join(question.split())
    if text.startswith('"') and text.endswith('"') and '""' in text:
        text = text[1:-1].replace('""', '"')  # the quotation marks of a CSV table
    choices = _choices(text)
    answer_format = _format(text, choices)
    splitting = answer_format in ("choice", "yes or no")
    names = names_asked(text, splitting) or _longest_run(text)
    content = _telling(text, {word for name in names for word in words_of(name)})
    limiting = [w for w in content if w in LIMITING or any(c.isdigit() for c in w)]
    relation = _stems(w for w in content if w not in limiting)
    entity = names[-1] if names else ""
    near = _stems(_telling(_around(text, entity), frozenset(words_of(entity))))
    bridge = tuple(s for s in near if s in relation)
    return SearchQABinding(
        entity=entity,
        entities=names,
        relation=relation,
        bridge=bridge if len(bridge) < len(relation) else (),
        constraints=tuple(dict.fromkeys(limiting)),
        answer_format=answer_format,
        choices=choices,
    )


def formats_of(answer: str, choices: Sequence[str]) -> tuple[AnswerFormat, ...]:
    """The formats that an answer fits; empty for a long answer, or without any letter or digit."""
    words = words_of(answer)
    if not words or len(words) > 12:
        return ()
    text = " ".join(words)
    digits = any(character.isdigit() for character in text)
    fits: dict[AnswerFormat, bool] = {
        "name": any(c.isalpha() for c in text) and words[0] not in ("yes", "no"),
        "date": digits or any(word in MONTHS for word in words),
        "number": digits or any(word in NUMBER_WORDS for word in words),
        "choice": any(
            set(words) <= (choice_words := set(words_of(choice))) or choice_words <= set(words)
            for choice in choices
        ),
        "yes or no": words in (("yes",), ("no",)),
    }
    return tuple([name for name, has in fits.items() if has])


def _format(text: str, choices: Sequence[str]) -> AnswerFormat:
    lowered = text.lower()
    if choices:
        return "choice"
    if _YES_NO.match(lowered):
        return "yes or no"
    if _DATE.match(lowered):
        return "date"
    return "number" if _NUMBER.search(lowered) else "name"


def _choices(text: str) -> tuple[str, ...]:
    """The two sides of the last ``A or B`` at the end of a question, if both are names."""
    body = text.rstrip("?. ")
    left, joint, right = body.rpartition(" or ")
    if not joint or not right[:1].isupper():
        return ()
    left = _BEFORE_CHOICE.split(left.rstrip(", "))[-1]
    return (left, right) if left[:1].isupper() and left != body else ()


def _telling(text: str, excluded: Set[str]) -> list[str]:
    """The content words of a text, without the excluded words."""
    return [w for w in words_of(text) if w not in FILLER and w not in excluded and len(w) > 1]


def _stems(words: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(stem for word in words for stem in stems_of(word)))


def _around(text: str, entity: str) -> str:
    """The noun of the entity: ``teacher`` in ``the teacher of Ada`` and ``Ada's teacher``."""
    if not entity:
        return ""
    name = re.escape(entity)
    owned = re.search(rf"{name}['’]s?\s+((?:[\w-]+\s+)?[\w-]+)", text)
    of = re.search(
        rf"\bthe\s+([^\W\d]+(?:\s+[^\W\d]+){{0,2}}?)\s+(?:of|in)\s+(?:the\s+)?{name}", text
    )
    return owned[1].split()[0] if owned else of[1] if of else ""


def _longest_run(text: str) -> tuple[str, ...]:
    """The longest run of content words (the last of equals), for a question without capitals."""
    runs: list[list[str]] = [[]]
    for word in words_of(text):
        if word in FILLER or word in LIMITING or word in CUES:
            runs.append([])
        else:
            runs[-1].append(word)
    best = max(reversed(runs), key=len)
    return (" ".join(best),) if best else ()
