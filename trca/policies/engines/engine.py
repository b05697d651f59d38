"""The generation engine: token ids in; token ids, logprobs and a finish reason out.

The rollout loop submits each prompt when it is ready, and goes on with a rollout when its
completion is there::

    future = engine.submit(Request(prompt_ids, seed), SamplingParams())
    engine.flush()
    completion = future.result()
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
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
        module: Id of the policy that is asked; one engine has one policy and does not look.
    """

    prompt_ids: NDArray[np.int32]
    seed: int
    module: str = ""


@dataclass(frozen=True, slots=True)
class Completion:
    """What the engine sampled.

    Attributes:
        ids: int32 of shape (R,): the sampled tokens, the stop string's or end token included.
        logprobs: float32 of shape (R,): log-probability of each under the sampling distribution
            (after temperature).
        finish_reason: ``stop`` (stop string or end token) or ``length``.
        version: Version of the weights that sampled it.
    """

    ids: NDArray[np.int32]
    logprobs: NDArray[np.float32]
    finish_reason: Literal["stop", "length"]
    version: int = 0


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


@dataclass(frozen=True)
class EngineSpec:
    """What an engine is made from, in the process and on the device where it runs.

    Attributes:
        model: Folder or Hugging Face name of the model and its tokenizer.
        dtype: Precision: ``float32``, ``bfloat16``, or ``auto`` for the one the model was saved in.
        device: ``cpu`` or ``cuda``, as PyTorch names devices.
        max_tokens: The most tokens of a prompt and its response together.
        lora_rank: Rank of the adapter whose weights will be pushed; 0 for the model's own weights.
        lora_alpha: The adapter's product is multiplied by ``lora_alpha / lora_rank``.
        options: Settings of the engine's own.
    """

    model: str
    dtype: str = "auto"
    device: str = "cpu"
    max_tokens: int = 2560
    lora_rank: int = 0
    lora_alpha: int = 32
    options: Mapping[str, Any] = field(default_factory=dict)


class Engine(Protocol):
    """Generates completions with one version of the policy's weights."""

    @property
    def version(self) -> int:
        """Version of the weights."""
        ...

    def submit(self, request: Request, sampling: SamplingParams) -> Future[Completion]:
        """Starts a completion. An error of the request or of the engine goes into the future."""
        ...

    def flush(self) -> None:
        """Says that no more requests come for now: an engine of batches generates."""
        ...

    def sleep(self) -> None:
        """Says that a phase of sampling is over: memory may go to others until the next call."""
        ...

    def load_weights(self, weights: Mapping[str, Any], version: int) -> None:
        """Takes new weights (a state dict of tensors or arrays) and their version."""
        ...

    def close(self) -> None:
        """Frees what the engine holds."""
        ...


class BatchEngine(ABC):
    """Base of engines that generate in batches: `flush` generates what was submitted before it."""

    version: int = 0

    def __init__(self) -> None:
        self._submitted: list[tuple[Request, SamplingParams, Future[Completion]]] = []

    @abstractmethod
    def generate(self, requests: Sequence[Request], sampling: SamplingParams) -> list[Completion]:
        """Returns completions in the order of the requests."""

    def submit(self, request: Request, sampling: SamplingParams) -> Future[Completion]:
        """Puts a request into the next batch."""
        future: Future[Completion] = Future()
        self._submitted.append((request, sampling, future))
        return future

    def flush(self) -> None:
        """Generates all that was submitted; a request that breaks its batch fails alone."""
        submitted, self._submitted = self._submitted, []
        for sampling in dict.fromkeys(params for _, params, _ in submitted):
            self._complete([(r, f) for r, params, f in submitted if params == sampling], sampling)

    def sleep(self) -> None:  # noqa: B027
        """Has nothing to do: the memory stays."""

    def _complete(
        self, batch: list[tuple[Request, Future[Completion]]], sampling: SamplingParams
    ) -> None:
        try:
            completions = self.generate([request for request, _ in batch], sampling)
        except Exception as error:
            if len(batch) == 1:
                batch[0][1].set_exception(error)
                return
            middle = len(batch) // 2
            self._complete(batch[:middle], sampling)
            self._complete(batch[middle:], sampling)
            return
        for (_, future), completion in zip(batch, completions, strict=True):
            future.set_result(completion)
