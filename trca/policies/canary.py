"""The check after each push of weights: did they arrive, and does the engine sample from them?

An engine answers a fixed prompt with a fixed seed, and the trainer scores the answer::

    canary = ask(engine, tokenizer, temperature, digest_of_what_came)
    expected = ...  # the trainer's log-probabilities of canary.ids after canary.prompt_ids
    check(canary, Sent(version, digest_of_what_was_sent, "float32", expected), before)

A push that is lost looks like an engine that is a little stale, and goes unnoticed for months.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trca.policies.dtypes import DTYPES
from trca.policies.engines.engine import Engine, Request, SamplingParams

_TEXT: Final = "<think>The weights arrive, or they do not.</think><action>look</action>\n" * 2
_PROMPT: Final = 32
_ANSWER: Final = 8


@dataclass(frozen=True)
class Canary:
    """What an engine makes of the fixed prompt.

    Attributes:
        version: Version of the weights that it says it has.
        digest: Digest of the weights that came last.
        prompt_ids: int32 (P,), the fixed prompt.
        ids: int32 (R,), what it sampled.
        logprobs: float32 (R,), their log-probabilities.
    """

    version: int
    digest: str
    prompt_ids: NDArray[np.int32]
    ids: NDArray[np.int32]
    logprobs: NDArray[np.float32]


@dataclass(frozen=True)
class Sent:
    """What the trainer knows of a push.

    Attributes:
        version: Version of the weights.
        digest: Digest of what was sent.
        dtype: Precision of engine and trainer.
        logprobs: float32 (R,), the trainer's own log-probabilities of the canary.
    """

    version: int
    digest: str
    dtype: str
    logprobs: NDArray[np.float32]


class PushError(RuntimeError):
    """An engine does not have the weights that were sent to it."""


def digest(weights: Mapping[str, Any]) -> str:
    """Returns a digest of names, shapes, precisions and bytes of arrays."""
    total = sha256()
    for name in sorted(weights):
        array: Any = np.ascontiguousarray(weights[name])
        total.update(f"{name} {array.shape} {array.dtype} {zlib.crc32(array)}\n".encode())
    return total.hexdigest()[:16]


def ask(engine: Engine, tokenizer: Any, temperature: float, sent: str, module: str = "") -> Canary:
    """Lets an engine answer the fixed prompt.

    Args:
        engine: The engine; other requests may run.
        tokenizer: Its tokenizer.
        temperature: Temperature of training.
        sent: Digest of the weights that came last.
        module: Id of the policy, where the engine has several.
    """
    prompt = np.array(tokenizer.encode(_TEXT)[:_PROMPT], dtype=np.int32)
    future = engine.submit(Request(prompt, 0, module), SamplingParams(temperature, _ANSWER))
    engine.flush()
    said = future.result()
    return Canary(engine.version, sent, prompt, said.ids, said.logprobs)


def check(canary: Canary, sent: Sent, before: Canary | None) -> float:
    """Compares a canary with what was sent.

    Args:
        canary: The answer of an engine after a push.
        sent: The push.
        before: Its answer after the push before; None at the first.

    Returns:
        The largest difference of a log-probability.

    Raises:
        PushError: Names what went wrong.
    """
    if canary.version != sent.version:
        raise PushError(
            f"the engine has weights of version {canary.version}, and version {sent.version} was"
            " sent: the push was lost, or it is late"
        )
    if canary.digest != sent.digest:
        raise PushError(
            f"other weights arrived than were sent as version {sent.version}: their digest is"
            f" {canary.digest} and not {sent.digest}"
        )
    if before is not None and canary.digest != before.digest and _same(canary, before):
        raise PushError(
            f"weights of version {sent.version} arrived, and the engine samples as before: it"
            " computes with a copy that the push does not reach (packed weights, a prefix cache)"
        )
    bound = DTYPES[sent.dtype].push
    difference = float(np.max(np.abs(canary.logprobs - sent.logprobs), initial=0.0))
    if not difference <= bound:
        raise PushError(
            f"weights of version {sent.version} arrived, and engine and trainer disagree: a"
            f" log-probability of the fixed prompt differs by {difference:.1e}, allowed is"
            f" {bound:.0e}. Likely causes: some of the weights are old (a tied head, packed"
            " weights); attention, positions or precision differ"
        )
    return difference


def _same(canary: Canary, before: Canary) -> bool:
    return bool(
        np.array_equal(canary.ids, before.ids) and np.array_equal(canary.logprobs, before.logprobs)
    )
