"""The engine of prompting agents: a model at an OpenAI-compatible endpoint.

Ids are the bytes of the text (`byte_tokenizer`), since the tokens of the model are unknown here.
Log-probabilities are NaN and weights cannot be set, so that no policy is trained with this engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import replace
from functools import cache
from typing import Any, Final, Self

import numpy as np
from tokenizers import Tokenizer, decoders, models
from tokenizers.pre_tokenizers import ByteLevel
from transformers import PreTrainedTokenizerFast

from trca.common.chat_endpoint import ChatEndpoint, Usage, missing_client
from trca.common.thoughts import start_of
from trca.common.threads import Threads
from trca.policies.engines.engine import Completion, Engine, EngineSpec, Request, SamplingParams
from trca.policies.engines.stops import StopStrings
from trca.policies.spans import byte_alphabet

_MOST_BYTES_PER_TOKEN: Final = 16
"""Longest answer, in bytes per token of the limit; longer answers are cut."""


class EndpointEngine(Engine):
    """Sends requests to an endpoint, many at once; `version` stays 0."""

    remote = True
    takes_weights = False
    gives_logprobs = False
    ids_per_token = 4
    """Bytes of English text per token of a usual model."""

    def __init__(
        self,
        model: str,
        base_url: str,
        *,
        concurrency: int = 16,
        timeout: float = 120.0,
        attempts: int = 6,
        request: Mapping[str, Any] | None = None,
    ) -> None:
        """Prepares a client; sends no request yet.

        Args:
            model: The model's name at the endpoint.
            base_url: The endpoint's base URL.
            concurrency: Largest number of requests at once.
            timeout: Seconds to wait for a reply.
            attempts: Number of tries of a request, in total.
            request: Further fields of each request. They replace ``temperature``, ``max_tokens``
                and ``seed``; a field with None is left out.
        """
        self._endpoint = ChatEndpoint(base_url, model, timeout=timeout, attempts=attempts)
        self._request = dict(request or {})
        self._threads = Threads(concurrency, "trca-endpoint")

    @property
    def usage(self) -> Usage:
        """Counts of requests and tokens so far."""
        return self._endpoint.usage

    @classmethod
    def open(cls, spec: EngineSpec) -> Self:
        """Opens the endpoint of a spec: the model is a name there, the options are arguments."""
        options = dict(spec.options)
        if "base_url" not in options:
            raise ValueError(
                "engine 'openai' needs engine_config.base_url, such as http://host:8000/v1"
            )
        try:
            return cls(spec.model, **options)
        except TypeError as error:
            raise ValueError(f"engine_config {options}: {error}") from None

    @classmethod
    def missing(cls) -> str:
        """How to install the client; empty if it is installed."""
        return missing_client()

    @classmethod
    def tokenizer(cls, model: str) -> Any:
        """The tokenizer of bytes."""
        return byte_tokenizer()

    def submit(self, request: Request, sampling: SamplingParams) -> Future[Completion]:
        """Sends a request as soon as a thread is free."""
        self.refuse_if_closed()
        return self._threads.submit(self._complete, request, sampling)

    def close(self) -> None:
        """Closes all connections."""
        super().close()
        self._threads.close()
        self._endpoint.close()

    def _complete(self, request: Request, sampling: SamplingParams) -> Completion:
        prompt = request.prompt_ids.astype(np.uint8).tobytes().decode(errors="replace")
        fields = {
            "temperature": sampling.temperature,
            "max_tokens": sampling.max_new_tokens,
            "seed": request.seed % 2**31,
        }
        answer = self._endpoint.ask(prompt, **fields | self._request)
        reason = answer.finish_reason
        written = answer.text.encode(errors="replace")
        longest = _MOST_BYTES_PER_TOKEN * sampling.max_new_tokens
        if len(written) > longest:
            written, reason = written[:longest], "length"
        # An endpoint leaves the stop string out of its answer, so stop strings are applied here.
        stops = StopStrings(replace(sampling, thought=start_of(answer.text, "unknown")))
        for size in range(1, len(written) + 1):
            if stops.ended_by(written[size - 1 : size]):
                written, reason = written[:size], "stop"
                break
        ids = np.frombuffer(written, dtype=np.uint8).astype(np.int32)
        return Completion(ids, np.full(len(ids), np.nan, dtype=np.float32), reason)


@cache
def byte_tokenizer() -> Any:
    """A tokenizer whose ids are the bytes of the text; its models may have native thoughts."""
    backend = Tokenizer(models.BPE(vocab=dict(byte_alphabet()), merges=[]))
    backend.pre_tokenizer = ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend, clean_up_tokenization_spaces=False
    )
    tokenizer.thought = "unknown"
    return tokenizer
