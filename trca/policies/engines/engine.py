"""The generation engine: token ids in; token ids, log-probabilities and a finish reason out.

A request is submitted, and its completion is a future::

    future = engine.submit(Request(prompt_ids, seed), SamplingParams())
    engine.flush()
    completion = future.result()
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from trca.common.thoughts import Thought


@dataclass(frozen=True, slots=True)
class Request:
    """One prompt to continue.

    Attributes:
        prompt_ids: int32 of shape (P,).
        seed: Seed of the request's random stream. The same seed, prompt and weights give the same
            completion in any batch.
        module: Id of the policy; an engine of one policy ignores it.
    """

    prompt_ids: NDArray[np.int32]
    seed: int
    module: str = ""


@dataclass(frozen=True, slots=True)
class Completion:
    """A sampled completion.

    Attributes:
        ids: int32 of shape (R,): the sampled tokens, including stop string or end token.
        logprobs: float32 of shape (R,): log-probability of each token under the sampling
            distribution (after temperature).
        finish_reason: ``stop`` (stop string or end token) or ``length``.
        version: Version of the weights that sampled the completion.
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
        stop: Strings that end a completion and stay in it. If empty, the rollout loop takes the
            stop strings of its response format.
        thought: Native thoughts of the model. A stop string within a native thought does not end
            a completion.
    """

    temperature: float = 1.0
    max_new_tokens: int = 512
    stop: tuple[str, ...] = ()
    thought: Thought = "none"


@dataclass(frozen=True)
class EngineSpec:
    """The arguments of `Engine.open`.

    Attributes:
        model: Folder or Hugging Face name of the model and its tokenizer.
        dtype: Precision: ``float32``, ``bfloat16``, or ``auto`` for the saved precision.
        device: ``cpu`` or ``cuda``, as PyTorch names devices.
        max_tokens: Largest number of tokens of a prompt and its response together.
        lora_rank: Rank of the adapter whose weights will be pushed; 0 for the model's weights.
        lora_alpha: The adapter's product is multiplied by ``lora_alpha / lora_rank``.
        options: The ``engine_config``: settings of this engine.
    """

    model: str
    dtype: str = "auto"
    device: str = "cpu"
    max_tokens: int = 2560
    lora_rank: int = 0
    lora_alpha: int = 32
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class EngineLoad:
    """The models and rollouts of one env runner."""

    policies: int  # number of policies
    weights: float  # bytes of the weights of one policy, without adapter
    adapter: float  # bytes of the adapter of one policy; 0 without adapters
    rollouts: int  # rollouts of the env runner
    row: float  # bytes of keys and values of one rollout at the longest prompt and response
    gpu: float | None  # bytes of a GPU; None on a CPU or for a GPU of unknown size
    options: Mapping[str, Any]  # the engine's settings (engine_config)


@dataclass(frozen=True)
class EngineMemory:
    """The memory of one env runner's engines, on each of their devices, at least."""

    weights: float  # bytes of weights
    cache: float  # bytes of keys and values
    rows: int  # rollouts that the engine takes at once
    devices: int = 1  # number of devices that share a model

    def rollouts_at_once(self, row: float) -> int:
        """Rollouts whose keys and values fit at once, of ``row`` bytes each."""
        return min(self.rows, int(self.cache * self.devices / row))


class Engine(ABC):
    """Generates completions with one version of the policy's weights.

    A subclass overrides `submit`, and `load_weights` for training; `BatchEngine` is the base of
    engines that generate in batches. The class attributes and class methods state needs and
    features of the engine: checks, planner and pages ask the class before an engine is opened.

    Attributes:
        version: Version of the weights.
        closed: Whether `close` was called. `submit` and `load_weights` call `refuse_if_closed`.
        extra: Extra of this package that installs the engine; empty without an extra.
        remote: Whether the model is at an endpoint: ``EngineSpec.model`` is its name there.
        takes_weights: Whether `load_weights` takes the policy's weights; training needs it.
        gives_logprobs: Whether completions have log-probabilities.
        takes_adapters: Whether `load_weights` takes a LoRA adapter without its base.
        frees_memory: Whether `sleep` can free memory for a learner on the same GPU.
        split_option: Key of ``engine_config`` with the number of GPUs that share one model; empty
            if an engine has one GPU.
        ids_per_token: Prompt ids per token, for limits on prompts.
    """

    version: int = 0
    closed: bool = False
    extra: ClassVar[str] = ""
    remote: ClassVar[bool] = False
    takes_weights: ClassVar[bool] = True
    gives_logprobs: ClassVar[bool] = True
    takes_adapters: ClassVar[bool] = False
    frees_memory: ClassVar[bool] = False
    split_option: ClassVar[str] = ""
    ids_per_token: ClassVar[int] = 1

    @classmethod
    def open(cls, spec: EngineSpec) -> Self:
        """Opens an engine in the process and on the device where it generates.

        By default calls the class with the spec.

        Raises:
            ValueError: For unknown options, or if the engine is not installed.
        """
        constructor: Any = cls
        opened: Self = constructor(spec)
        return opened

    @abstractmethod
    def submit(self, request: Request, sampling: SamplingParams) -> Future[Completion]:
        """Starts a completion. Errors of the request or of the engine go into the future.

        Raises:
            RuntimeError: If the engine is closed.
        """

    def load_weights(self, weights: Mapping[str, Any], version: int) -> None:
        """Takes new weights (a state dict of tensors or arrays) and their version.

        Raises:
            RuntimeError: If the engine does not take weights, as by default.
        """
        raise RuntimeError(f"the weights of {type(self).__name__} cannot be set")

    def close(self) -> None:
        """Frees the engine's resources; requests without a completion end with an error."""
        self.closed = True

    def refuse_if_closed(self) -> None:
        """Raises an error if the engine is closed.

        Raises:
            RuntimeError: Names the engine.
        """
        if self.closed:
            raise RuntimeError(f"{type(self).__name__} is closed: open another engine")

    def flush(self) -> None:  # noqa: B027
        """Runs the submitted batch; nothing to do for an engine that starts requests at once."""

    @property
    def in_batches(self) -> bool:
        """Whether requests wait for `flush`; by default, whether the class overrides `flush`."""
        return type(self).flush is not Engine.flush

    def sleep(self) -> None:  # noqa: B027
        """Ends a phase of sampling: the engine may free memory until the next call."""

    @classmethod
    def missing(cls) -> str:
        """How to install the engine on this machine; empty if it is installed."""
        return ""

    @classmethod
    def untrainable(cls) -> str:
        """Why no policy can be trained with this engine; empty if training works."""
        if cls.remote:
            return (
                "asks a model elsewhere, whose weights cannot be trained: evaluate it with"
                " trca evaluate --base-url"
            )
        if not cls.takes_weights:
            return "does not take the policy's weights: evaluate with it, or set another engine"
        if not cls.gives_logprobs:
            return "gives no log-probabilities: evaluate with it, or set another engine"
        return ""

    @classmethod  # noqa: B027
    def check(cls, spec: EngineSpec) -> None:
        """Refuses a model, device, precision or adapter that the engine does not support.

        Args:
            spec: The arguments of `open`.

        Raises:
            ValueError: Names the setting, the reason and the fix.
        """

    @classmethod
    def tokenizer(cls, model: str) -> Any:
        """The tokenizer of prompts and completions.

        Args:
            model: Folder or Hugging Face name; the name at the endpoint for a remote engine.
        """
        from trca.policies.models import load_tokenizer

        return load_tokenizer(model)

    @classmethod
    def memory(cls, load: EngineLoad) -> EngineMemory:
        """Memory of an env runner's engines on each of their devices, at least.

        By default the weights of each policy, and keys and values of all rollouts. A remote model
        takes no memory.
        """
        weights = 0.0 if cls.remote else load.policies * (load.weights + load.adapter)
        return EngineMemory(weights, load.rollouts * load.row, load.rollouts)

    @classmethod  # noqa: B027
    def share_memory(cls, engines: Sequence[Any]) -> None:
        """Lets engines of several policies share memory; nothing to share by default.

        Args:
            engines: Open engines of this class.
        """


class BatchEngine(Engine):
    """Base of engines that generate in batches; a subclass overrides `generate`.

    `flush` generates everything that was submitted before it.
    """

    def __init__(self) -> None:
        self._submitted: list[tuple[Request, SamplingParams, Future[Completion]]] = []

    @abstractmethod
    def generate(self, requests: Sequence[Request], sampling: SamplingParams) -> list[Completion]:
        """Returns completions in the order of the requests."""

    def submit(self, request: Request, sampling: SamplingParams) -> Future[Completion]:
        """Puts a request into the next batch."""
        self.refuse_if_closed()
        future: Future[Completion] = Future()
        self._submitted.append((request, sampling, future))
        return future

    def close(self) -> None:
        """Ends the requests of the next batch with an error."""
        super().close()
        for _, _, future in self._submitted:
            future.set_exception(RuntimeError("the engine was closed"))
        self._submitted.clear()

    def flush(self) -> None:
        """Generates the next batch. A request that breaks its batch is generated separately."""
        submitted, self._submitted = self._submitted, []
        for sampling in dict.fromkeys(params for _, params, _ in submitted):
            self._answer([(r, f) for r, params, f in submitted if params == sampling], sampling)

    def _answer(
        self, batch: list[tuple[Request, Future[Completion]]], sampling: SamplingParams
    ) -> None:
        completions = None
        try:
            completions = self.generate([request for request, _ in batch], sampling)
        except Exception as error:
            if len(batch) == 1:
                batch[0][1].set_exception(error)
                return
        if completions is None:  # after the handler: an exception keeps the memory of the batch
            middle = len(batch) // 2
            self._answer(batch[:middle], sampling)
            self._answer(batch[middle:], sampling)
            return
        for (_, future), completion in zip(batch, completions, strict=True):
            future.set_result(completion)


class SeveralEngines(Engine):
    """Sends each request to the engine of its policy (`Request.module`).

    Attributes:
        engines: Engines by id of their policy.
        version: Version of the weights of all engines.
    """

    def __init__(self, engines: Mapping[str, Engine]) -> None:
        """Takes one or more open engines of the same class; they share memory."""
        self.engines = dict(engines)
        first, *_ = opened = list(self.engines.values())
        self.version = first.version
        type(first).share_memory(opened)

    def submit(self, request: Request, sampling: SamplingParams) -> Future[Completion]:
        """Starts a completion of the request's policy."""
        return self.engines[request.module].submit(request, sampling)

    @property
    def in_batches(self) -> bool:
        """Whether requests wait for `flush`."""
        return any(engine.in_batches for engine in self.engines.values())

    def flush(self) -> None:
        """Runs the batch of each engine, in sequence."""
        for engine in self.engines.values():
            engine.flush()

    def sleep(self) -> None:
        """Ends a phase of sampling in every engine."""
        for engine in self.engines.values():
            engine.sleep()

    def load_weights(self, weights: Mapping[str, Any], version: int) -> None:
        """Takes new weights of each policy, by its id."""
        for module, engine in self.engines.items():
            engine.load_weights(weights[module], version)
        self.version = version

    def close(self) -> None:
        """Closes every engine."""
        super().close()
        for engine in self.engines.values():
            engine.close()
