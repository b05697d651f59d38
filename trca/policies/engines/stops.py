"""Ends of a completion: end tokens of the model, and stop strings."""

from __future__ import annotations

from typing import Any, Final

from trca.common.thoughts import CLOSE, OPEN
from trca.policies.engines.engine import SamplingParams

_OPENING: Final = (OPEN.encode(),)
_CLOSING: Final = CLOSE.encode()


def end_ids(model: Any, tokenizer: Any) -> frozenset[int]:
    """Ids of the end tokens of a Hugging Face causal LM and its tokenizer."""
    config = getattr(model, "generation_config", None)
    ends = getattr(config, "eos_token_id", None)
    ids = ends if isinstance(ends, list) else [ends]
    return frozenset(i for i in [*ids, tokenizer.eos_token_id] if i is not None)


class StopStrings:
    """Finds the first stop string in a completion, token by token.

    A stop string that begins within a native thought does not count; see `trca.common.thoughts`.
    """

    def __init__(self, sampling: SamplingParams) -> None:
        """Starts before the first token."""
        self._stops = tuple(stop.encode() for stop in sampling.stop)
        self._opening = _OPENING if sampling.thought != "none" else ()
        self._kept = max(map(len, (*self._stops, *self._opening)), default=1) - 1
        self._open = sampling.thought == "open"
        self._tail = b""

    def ended_by(self, piece: bytes) -> bool:
        """Whether the next token, of these bytes, completes a stop string."""
        text = self._tail + piece
        while True:
            if self._open:
                _, tag, rest = text.partition(_CLOSING)
                if not tag:
                    self._tail = _end(text, len(_CLOSING) - 1)
                    return False
                text, self._open = rest, False
            stop, thought = _first(text, self._stops), _first(text, self._opening)
            if stop < thought:
                return True
            if thought == len(text):
                self._tail = _end(text, self._kept)
                return False
            text, self._open = text[thought + len(OPEN) :], True


def _first(text: bytes, marks: tuple[bytes, ...]) -> int:
    """Index of the first mark in a text; the length of the text without a mark."""
    places = [place for mark in marks if (place := text.find(mark)) >= 0]
    return min(places, default=len(text))


def _end(text: bytes, size: int) -> bytes:
    """The last bytes of a text."""
    return text[-size:] if size else b""
