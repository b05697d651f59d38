"""The check after each push of weights: the weights arrived, and the engine samples from them.

An engine answers a fixed prompt with a fixed seed, and the trainer scores the answer::

    canary = ask(engine, tokenizer, temperature, digest_of_received_weights)
    expected = ...  # the trainer's log-probabilities of canary.ids after canary.prompt_ids
    check(canary, Sent(version, digest_of_sent_weights, "float32", expected), before)

Without the check, an engine with old weights looks like an engine with slightly stale weights, and
the error can stay unnoticed for months.
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
    """An engine's answer to the fixed prompt, (P,) and (R,), and the digest of its last weights."""

    version: int
    digest: str
    prompt_ids: NDArray[np.int32]
    ids: NDArray[np.int32]
    logprobs: NDArray[np.float32]


@dataclass(frozen=True)
class Sent:
    """The trainer's side of a push; ``logprobs`` are its log-probabilities of the canary, (R,)."""

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
    """Samples an engine's response to the fixed prompt; other requests may run at the same time.

    ``sent`` is the digest of the last received weights.
    """
    prompt = np.array(tokenizer.encode(_TEXT)[:_PROMPT], dtype=np.int32)
    future = engine.submit(Request(prompt, 0, module), SamplingParams(temperature, _ANSWER))
    engine.flush()
    completion = future.result()
    return Canary(engine.version, sent, prompt, completion.ids, completion.logprobs)


def check(canary: Canary, sent: Sent, before: Canary | None) -> float:
    """Compares a canary with a push; ``before`` is the answer after the push before, if any.

    Returns the mean difference of a log-probability. In bfloat16 a logit of 32 is rounded by up to
    0.125, so one token may differ by several tenths; other weights change most tokens.

    Raises:
        PushError: If version or digest differ, the response did not change, or the
            log-probabilities differ by more than rounding allows.
    """
    if canary.version != sent.version:
        raise PushError(
            f"the engine has weights of version {canary.version}, but version {sent.version} was"
            " sent: the push was lost or is late"
        )
    if canary.digest != sent.digest:
        raise PushError(
            f"the received weights differ from the sent weights of version {sent.version}: their"
            f" digest is {canary.digest}, not {sent.digest}"
        )
    if (
        before is not None
        and canary.digest != before.digest
        and np.array_equal(canary.ids, before.ids)
        and np.array_equal(canary.logprobs, before.logprobs)
    ):
        raise PushError(
            f"weights of version {sent.version} arrived, but the engine samples as before: it"
            " computes with a copy that the push does not reach (packed weights, a prefix cache)"
        )
    bound = DTYPES[sent.dtype].push
    differences = np.abs(canary.logprobs - sent.logprobs)
    difference = float(differences.mean()) if len(differences) else 0.0
    if not difference <= bound:
        raise PushError(
            f"weights of version {sent.version} arrived, but engine and trainer disagree: the"
            f" log-probabilities of the fixed prompt differ by {difference:.1e} on average, at most"
            f" {bound:.0e} is allowed. Likely causes: some weights are old (a tied head, packed"
            " weights); attention, positions or precision differ"
        )
    return difference
