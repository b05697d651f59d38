"""The engine of prompting agents: a model at an OpenAI-compatible endpoint.

It takes and gives ids like every engine. They are the bytes of the text (`byte_tokenizer`), since
the model's own tokens are not known here. Log-probabilities are NaN, and weights cannot be set, so
nothing is trained with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from functools import cache
from typing import Any, Final

import numpy as np
from tokenizers import Tokenizer, decoders, models
from tokenizers.pre_tokenizers import ByteLevel
from transformers import PreTrainedTokenizerFast

from trca.common.chat_endpoint import ChatEndpoint, Usage
from trca.common.threads import Threads
from trca.policies.engines.engine import Completion, EngineSpec, Request, SamplingParams
from trca.policies.spans import byte_alphabet

BYTES_PER_TOKEN: Final = 4
"""About how many bytes of English one token of a usual model has; limits on prompts count so."""

_MOST_BYTES_PER_TOKEN: Final = 16
"""An answer with more bytes for each token that it may have is cut."""


def open_engine(spec: EngineSpec) -> EndpointEngine:
    """Opens the endpoint of a spec: its model is a name there, its options are arguments.

    Raises:
        ValueError: Without ``base_url``, and for an unknown option.
    """
    options = dict(spec.options)
    if "base_url" not in options:
        raise ValueError(
            "engine 'openai' needs engine_config.base_url, such as http://host:8000/v1"
        )
    try:
        return EndpointEngine(spec.model, **options)
    except TypeError as error:
        raise ValueError(f"engine_config {options}: {error}") from None


class EndpointEngine:
    """Asks an endpoint, many requests at once.

    Attributes:
        version: 0: the weights are elsewhere.
    """

    version: int = 0

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
        """Prepares a client; nothing is asked yet.

        Args:
            model: The model's name at the endpoint.
            base_url: The endpoint's base URL.
            concurrency: The most requests under way at once.
            timeout: Seconds to wait for a reply.
            attempts: How often a request is tried in all.
            request: Further fields of each request; they win over ``temperature``, ``max_tokens``
                and ``seed``, and a field that is None is left out.
        """
        self._endpoint = ChatEndpoint(base_url, model, timeout=timeout, attempts=attempts)
        self._request = dict(request or {})
        self._threads = Threads(concurrency, "trca-endpoint")

    @property
    def usage(self) -> Usage:
        """What was asked and answered so far."""
        return self._endpoint.usage

    def submit(self, request: Request, sampling: SamplingParams) -> Future[Completion]:
        """Asks in a thread, as soon as one is free."""
        return self._threads.submit(self._complete, request, sampling)

    def flush(self) -> None:
        """Does nothing: requests are under way."""

    def sleep(self) -> None:
        """Does nothing: no memory of this machine is held."""

    def load_weights(self, weights: Mapping[str, Any], version: int) -> None:
        """Refuses.

        Raises:
            RuntimeError: Always.
        """
        raise RuntimeError(f"{self._endpoint.url}: the weights of an endpoint cannot be set")

    def close(self) -> None:
        """Closes all connections."""
        self._threads.close()
        self._endpoint.close()

    def _complete(self, request: Request, sampling: SamplingParams) -> Completion:
        prompt = request.prompt_ids.astype(np.uint8).tobytes().decode(errors="replace")
        said = {
            "temperature": sampling.temperature,
            "max_tokens": sampling.max_new_tokens,
            "seed": request.seed % 2**31,
        }
        answer = self._endpoint.ask(prompt, **said | self._request)
        text, reason = answer.text, answer.finish_reason
        # An endpoint leaves a stop string out of its answer: so none is sent, and they end it here.
        ends = [at + len(stop) for stop in sampling.stop if (at := text.find(stop)) >= 0]
        if ends:
            text, reason = text[: min(ends)], "stop"
        written = text.encode(errors="replace")
        longest = _MOST_BYTES_PER_TOKEN * sampling.max_new_tokens
        if len(written) > longest:
            written, reason = written[:longest], "length"
        ids = np.frombuffer(written, dtype=np.uint8).astype(np.int32)
        return Completion(ids, np.full(len(ids), np.nan, dtype=np.float32), reason)


@cache
def byte_tokenizer() -> Any:
    """A tokenizer whose ids are the bytes of the text."""
    backend = Tokenizer(models.BPE(vocab=dict(byte_alphabet()), merges=[]))
    backend.pre_tokenizer = ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=backend, clean_up_tokenization_spaces=False)
