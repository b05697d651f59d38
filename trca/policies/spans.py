"""Reads sampled tokens: the text, the action in the text, and the tokens of the action."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from trca.common.thoughts import Thought, answer_start
from trca.envs.responses import ACTION_FORMAT, NO_ACTION, Plan, ResponseFormat, Span, bare
from trca.envs.text_env import as_action


@dataclass(frozen=True, slots=True)
class Response:
    """A parsed response."""

    text: str  # the text of the response; bytes that are not UTF-8 become U+FFFD
    action: str  # the action for the environment; empty if the response has no action
    # bool (R,), True on the tokens that overlap the action, tags included
    action_mask: NDArray[np.bool_]
    plan: Plan | None  # the plan; None for a response without a plan
    # int8 (R,), the part of the plan of each token, tags included: 1 for the switch, 2 for the
    # subgoal, 3 for the action, 0 for other tokens. A token that overlaps two parts belongs to
    # the later part
    parts: NDArray[np.int8]


def read_response(
    ids: Sequence[int] | NDArray[np.int32],
    tokenizer: Any,
    response_format: ResponseFormat = ACTION_FORMAT,
    thought: Thought | None = None,
    admissible: Sequence[str] = (),
) -> Response:
    """Parses sampled ids: finds the action and its tokens in one pass.

    Quotes, emphasis and fences around an action are not part of the action, unless the action is
    admissible with them.

    A response whose action contains control characters has no readable action, unless the action is
    admissible. Tags within a native thought are no action.

    Args:
        ids: The sampled ids, shape (R,); ids outside the vocabulary count as empty.
        tokenizer: The tokenizer of the ids; see `token_bytes`.
        response_format: Format of the response.
        thought: Native thoughts of the model; None for those of the tokenizer.
        admissible: The admissible actions, if the environment lists them.
    """
    pieces = _pieces(ids, tokenizer)
    # Every byte that is not UTF-8 becomes one character. `_encoded` restores the byte.
    text = b"".join(pieces).decode(errors="surrogateescape")
    answer = answer_start(text, thought or thoughts_of(tokenizer))
    reading = response_format.read(text[answer:])
    action = _printable(reading.action)
    if action not in admissible:
        action = bare(action)
    if as_action(action, admissible) != action:
        reading, action = NO_ACTION, NO_ACTION.action
    parts = np.zeros(len(pieces), dtype=np.int8)

    def tokens(span: Span) -> NDArray[np.bool_]:
        return _overlapping(pieces, *(len(_encoded(text[: answer + place])) for place in span))

    mask = np.zeros(len(pieces), dtype=bool) if reading.span is None else tokens(reading.span)
    plan = reading.plan
    if plan is not None:
        for part, span in enumerate(plan.parts, start=1):
            parts[tokens(span)] = part
        plan = replace(plan, subgoal=_printable(plan.subgoal))
    return Response(_printable(text), action, mask, plan, parts)


def thoughts_of(tokenizer: Any) -> Thought:
    """Native thoughts of a model whose prompts have no chat template, by its tokenizer."""
    thought: Thought = getattr(tokenizer, "thought", "none")
    return thought


def part_of(
    ids: Sequence[int] | NDArray[np.int32], tokenizer: Any, start: int, end: int
) -> NDArray[np.bool_]:
    """Marks the tokens that overlap a range of bytes of the text.

    Args:
        ids: Shape (R,).
        tokenizer: The tokenizer of the ids; see `token_bytes`.
        start: First byte of the range.
        end: End of the range, exclusive.

    Returns:
        bool (R,).
    """
    return _overlapping(_pieces(ids, tokenizer), start, end)


def token_bytes(tokenizer: Any) -> tuple[bytes, ...]:
    """Returns the raw bytes of every token of a tokenizer, by id.

    Args:
        tokenizer: A fast Hugging Face tokenizer, byte-level (GPT-2, Qwen, Llama 3) or SentencePiece
            with byte fallback (Llama 2, Gemma).

    Raises:
        ValueError: If the tokenizer is neither byte-level nor SentencePiece with byte fallback.
    """
    if tokenizer not in _KNOWN:
        _KNOWN[tokenizer] = _read_bytes(tokenizer)
    return _KNOWN[tokenizer]


_KNOWN: Final[WeakKeyDictionary[Any, tuple[bytes, ...]]] = WeakKeyDictionary()


def _pieces(ids: Sequence[int] | NDArray[np.int32], tokenizer: Any) -> list[bytes]:
    """Returns the bytes of each id; empty for an id outside the vocabulary."""
    table = token_bytes(tokenizer)
    return [table[i] if 0 <= i < len(table) else b"" for i in np.asarray(ids).tolist()]


def _overlapping(pieces: Sequence[bytes], start: int, end: int) -> NDArray[np.bool_]:
    lengths = np.array([len(piece) for piece in pieces], dtype=np.int64)
    after = np.cumsum(lengths)
    return (after > start) & (after - lengths < end) & (lengths > 0)


def _encoded(text: str) -> bytes:
    return text.encode(errors="surrogateescape")


def _printable(text: str) -> str:
    return _encoded(text).decode(errors="replace")


def _read_bytes(tokenizer: Any) -> tuple[bytes, ...]:
    backend = getattr(tokenizer, "backend_tokenizer", None)
    decoder = json.dumps(json.loads(backend.to_str())["decoder"]) if backend is not None else ""
    by_bytes, alphabet = '"ByteLevel"' in decoder, byte_alphabet()
    if not by_bytes and '"ByteFallback"' not in decoder:
        raise ValueError(
            f"{type(tokenizer).__name__} is not a byte-level or byte-fallback tokenizer: choose a"
            " model with such a tokenizer, for example Qwen, Llama or Gemma"
        )

    def read(name: str) -> bytes:
        if by_bytes and all(character in alphabet for character in name):
            return bytes(alphabet[character] for character in name)
        if not by_bytes and len(name) == 6 and name.startswith("<0x") and name.endswith(">"):
            return bytes([int(name[3:5], 16)])
        return (name if by_bytes else name.replace("\u2581", " ")).encode()

    added = tokenizer.added_tokens_decoder
    names = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
    return tuple(
        (name or "").encode() if i in added else read(name or "") for i, name in enumerate(names)
    )


@cache
def byte_alphabet() -> dict[str, int]:
    """Returns GPT-2's printable character for each of the 256 bytes."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [byte for byte in range(256) if byte not in plain]
    return {chr(b): b for b in plain} | {chr(256 + k): b for k, b in enumerate(rest)}
