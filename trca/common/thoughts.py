"""Native thoughts: the ``<think>...</think>`` that the chat template of a reasoning model knows.

A native thought may quote the tags of an action: ``<think>I could write <action>look</action>``.
Such a quote neither ends the response nor is an action. The action follows the thought.
"""

from __future__ import annotations

from typing import Final, Literal

Thought = Literal["none", "closed", "open", "unknown"]
"""``none``: a model without native thoughts; ``closed``: a response starts outside of a thought;
``open``: the prompt ends with ``<think>``, so that a response starts within a thought; ``unknown``:
the template is unknown, as that of an endpoint: a response starts within a thought if the first tag
of a thought closes the thought."""

OPEN: Final = "<think>"
CLOSE: Final = "</think>"


def start_of(text: str, thought: Thought) -> Thought:
    """The state at the start of a response; resolves ``unknown``."""
    if thought != "unknown":
        return thought
    opened, closed = text.find(OPEN), text.find(CLOSE)
    return "open" if closed >= 0 and not 0 <= opened < closed else "closed"


def leaves_open(text: str, before: Thought) -> bool:
    """Whether a native thought is open at the end of a text, given the state before the text."""
    if before == "none":
        return False
    opened, closed = text.rfind(OPEN), text.rfind(CLOSE)
    return before == "open" if opened == closed else opened > closed


def answer_start(text: str, thought: Thought) -> int:
    """Index of the first character after the native thoughts of a response.

    The length of the text if a thought is open at its end; 0 without native thoughts. ``thought``
    is the state at the start of the response.
    """
    if leaves_open(text, start_of(text, thought)):
        return len(text)
    end = text.rfind(CLOSE) if thought != "none" else -1
    return end + len(CLOSE) if end >= 0 else 0
