"""Writes observations: the question, lists of results, and opened passages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from trca.envs.retrieval.passages import Passage

REJECTED: Final = "Nothing happens: use search[query], open[n] of a listed result or answer[text]."
"""The observation after an action that is not carried out."""
NOTHING_FOUND: Final = "No passages found."
"""The observation after a search without results."""
ANSWERED: Final = "Answer submitted."
"""The observation after an answer; it does not reveal the score."""
CUT: Final = "…"
"""The end of a text that is cut in the list of results."""


def results_page(passages: Sequence[Passage], limit: int) -> str:
    """One numbered line per passage, with its text cut to a limit: ``[1] Title: first words…``."""
    numbered = enumerate(passages, 1)
    lines = (_line(n, passage, shortened(passage.text, limit)) for n, passage in numbered)
    return "\n".join(lines) or NOTHING_FOUND


def passage_page(number: int, passage: Passage) -> str:
    """A complete passage on one line."""
    return _line(number, passage, one_line(passage.text))


def shortened(text: str, limit: int) -> str:
    """A text on one line, cut between words to at most ``limit`` characters without `CUT`."""
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


def _line(number: int, passage: Passage, text: str) -> str:
    title = one_line(passage.title)
    return f"[{number}] {title}: {text}" if title else f"[{number}] {text}"
