"""What the agent is shown: the question, lists of results, and opened passages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from trca.envs.retrieval.passages import Passage

REJECTED: Final = "Nothing happens: use search[query], open[n] of a listed result or answer[text]."
"""What answers an action that cannot be carried out."""
NOTHING_FOUND: Final = "No passages found."
"""What answers a search without results."""
ANSWERED: Final = "Answer submitted."
"""What answers an answer; it does not say whether it was right."""
CUT: Final = "…"
"""Stands at the end of a text that goes on in the passage."""


def question_page(question: str) -> str:
    """The first observation."""
    return f"Question: {question}"


def results_page(passages: Sequence[Passage], limit: int) -> str:
    """A numbered line for each passage: ``[1] Title: first words…``.

    Args:
        passages: What was found, best first.
        limit: The most characters of a passage's text, its title not counted.
    """
    lines = (_line(n, passage, shortened(passage.text, limit)) for n, passage in _counted(passages))
    return "\n".join(lines) or NOTHING_FOUND


def passage_page(number: int, passage: Passage) -> str:
    """A passage in full, as one line."""
    return _line(number, passage, one_line(passage.text))


def shortened(text: str, limit: int) -> str:
    """A text on one line, cut between words to that many characters, `CUT` not counted."""
    line = one_line(text[: 2 * limit + 80])
    if len(line) <= limit and len(text) <= 2 * limit + 80:
        return line
    kept = line[:limit]
    if not line[limit : limit + 1].isspace():
        kept = kept.rpartition(" ")[0] or kept
    return kept.rstrip() + CUT


def one_line(text: str) -> str:
    """A text with single spaces and no line breaks."""
    return " ".join(text.split())


def _counted(passages: Sequence[Passage]) -> enumerate[Passage]:
    return enumerate(passages, 1)


def _line(number: int, passage: Passage, text: str) -> str:
    title = one_line(passage.title)
    return f"[{number}] {title}: {text}" if title else f"[{number}] {text}"
