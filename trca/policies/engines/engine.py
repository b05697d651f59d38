"""The generation engine: token ids in; token ids, logprobs and a finish reason out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Request:
    """One prompt to continue.

    Attributes:
        prompt_ids: int32 of shape (P,).
        seed: Seed of this request's own random stream. The same seed, prompt and weights give the
            same completion whatever else is in the batch.
    """

    prompt_ids: NDArray[np.int32]
    seed: int


@dataclass(frozen=True, slots=True)
class Completion:
    """What the engine sampled.

    Attributes:
        ids: int32 of shape (R,): the sampled tokens, the stop string's or end token included.
        logprobs: float32 of shape (R,): log-probability of each under the sampling distribution
            (after temperature).
        finish_reason: ``stop`` (stop string or end token) or ``length``.
    """

    ids: NDArray[np.int32]
    logprobs: NDArray[np.float32]
    finish_reason: Literal["stop", "length"]


@dataclass(frozen=True)
class SamplingParams:
    """Temperature and limits of sampling.

    Attributes:
        temperature: Softmax temperature; 0 means greedy.
        max_new_tokens: Limit on R.
        stop: Strings that end a completion, and stay in it. The rollout loop takes those of its
            response format when there are none here.
    """

    temperature: float = 1.0
    max_new_tokens: int = 512
    stop: tuple[str, ...] = ()


class Engine(Protocol):
    """Generates completions with one version of the policy's weights."""

    version: int

    def generate(self, requests: Sequence[Request], sampling: SamplingParams) -> list[Completion]:
        """Completions in the order of the requests."""
        ...

    def load_weights(self, weights: Mapping[str, Any], version: int) -> None:
        """Takes new weights (a state dict of tensors or arrays) and their version."""
        ...

    def close(self) -> None:
        """Frees what the engine holds."""
        ...
