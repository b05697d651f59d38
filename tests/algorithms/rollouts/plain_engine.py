"""An engine in its own file: one forward pass per token, without a cache."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from trca.policies.engines.engine import (
    BatchEngine,
    Completion,
    EngineSpec,
    Request,
    SamplingParams,
)
from trca.policies.engines.stops import end_ids
from trca.policies.models import load_model, load_tokenizer
from trca.policies.spans import token_bytes
from trca.policies.weights import import_weights


class PlainEngine(BatchEngine):
    """Samples from a Hugging Face causal LM."""

    def __init__(self, spec: EngineSpec) -> None:
        """Reads the model and the tokenizer of a spec."""
        super().__init__()
        self.model, tokenizer = load_model(spec.model, spec.dtype), load_tokenizer(spec.model)
        self._pieces = token_bytes(tokenizer)
        self._ends = end_ids(self.model, tokenizer)

    def generate(self, requests: Sequence[Request], sampling: SamplingParams) -> list[Completion]:
        """Completes each request in turn."""
        with torch.inference_mode():
            return [self._complete(request, sampling) for request in requests]

    def load_weights(self, weights: Mapping[str, Any], version: int) -> None:
        """Takes new weights."""
        import_weights(self.model, weights)
        self.version = version

    def _complete(self, request: Request, sampling: SamplingParams) -> Completion:
        rng, text = np.random.default_rng(request.seed), b""
        ids, logprobs, reason = list(map(int, request.prompt_ids)), [], "length"
        while len(logprobs) < sampling.max_new_tokens and reason == "length":
            logits = self.model(torch.tensor([ids])).logits[0, -1, : len(self._pieces)].float()
            scores = (logits / (sampling.temperature or 1.0)).log_softmax(-1)
            shares = scores.exp().double().numpy()
            drawn = rng.choice(len(shares), p=shares / shares.sum())
            ids.append(int(drawn if sampling.temperature else scores.argmax()))
            logprobs.append(float(scores[ids[-1]]))
            text += self._pieces[ids[-1]]
            if ids[-1] in self._ends or any(stop.encode() in text for stop in sampling.stop):
                reason = "stop"
        new = np.array(ids[len(request.prompt_ids) :], dtype=np.int32)
        return Completion(new, np.array(logprobs, dtype=np.float32), reason, self.version)
