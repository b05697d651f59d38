"""The default engine: batched sampling from a Hugging Face causal LM in this process.

A request's completion does not depend on the rest of its batch, bit for bit on CPU:

* Chance: each request has a counter-based stream with one uniform number per token; inverse CDF in
  the order of the ids gives the token.
* Arithmetic: PyTorch's CPU kernels round a row independently of its neighbours if the tokens of a
  pass are a multiple of eight and all further sizes are equal (see the tests; passes of 1, 2 or 7
  tokens differ in the last bits). A pass therefore has rows of the same padded sizes, which are
  functions of the length of each prompt, and copies fill up a pass of single tokens.
  `read_prefixes` pads prompts, and each row writes keys and values at the positions of its tokens.

On a GPU, where rounding depends on the batch, all requests are one batch.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any, Final, Literal, Self

import numpy as np
import torch
from torch import Tensor

from trca.policies.architectures import RECURRENT, context_length
from trca.policies.engines.engine import (
    BatchEngine,
    Completion,
    EngineLoad,
    EngineMemory,
    EngineSpec,
    Request,
    SamplingParams,
)
from trca.policies.engines.row_cache import RowCache, read_prefixes, rows_attended
from trca.policies.engines.stops import StopStrings, end_ids
from trca.policies.lora import add_lora, share_bases
from trca.policies.models import load_model, load_tokenizer
from trca.policies.spans import token_bytes
from trca.policies.weights import import_weights

_ROWS: Final = 8
_CACHE_GRID: Final = 64
_CACHE_SLACK: Final = 32
_BATCH_ROWS: Final = 512


class TransformersEngine(BatchEngine):
    """Samples completions with a causal LM; the module docstring explains their reproducibility."""

    takes_adapters = True

    @classmethod
    def open(cls, spec: EngineSpec) -> Self:
        """Opens the model of a spec; the options are arguments of the class."""
        model = load_model(spec.model, spec.dtype)
        if spec.lora_rank:
            add_lora(model, spec.lora_rank, spec.lora_alpha)
        return cls(model.to(spec.device), load_tokenizer(spec.model), **spec.options)

    @classmethod
    def memory(cls, load: EngineLoad) -> EngineMemory:
        """See `Engine.memory`: one batch of at most ``max_batch_rows``. Adapters share the base."""
        most = _most_rows(int(load.options.get("max_batch_rows", _BATCH_ROWS)))
        rows = min(_round_up(load.rollouts, _ROWS), most)
        bases = 1 if load.adapter else load.policies
        weights = bases * load.weights + load.policies * load.adapter
        return EngineMemory(weights, rows * load.row, min(load.rollouts, most))

    @classmethod
    def share_memory(cls, engines: Sequence[Any]) -> None:
        """Lets engines with adapters of the same model hold the model once."""
        share_bases([engine.model for engine in engines])

    def __init__(
        self, model: Any, tokenizer: Any, *, version: int = 0, max_batch_rows: int = _BATCH_ROWS
    ) -> None:
        """Takes a model with its device and precision, without a copy.

        ``max_batch_rows`` requests are decoded together at most; it bounds the memory of keys and
        values, and changes no result on a CPU. Ids outside the tokenizer are never sampled.
        """
        super().__init__()
        self.version = version
        self.model = model
        self._tokenizer = tokenizer
        self._vocabulary = len(tokenizer)
        self._on_gpu = model.device.type == "cuda"
        self._max_rows = _most_rows(max_batch_rows)
        self._ends = end_ids(model, tokenizer)
        config = model.config.get_text_config()
        self._positions = context_length(config)
        kinds = getattr(config, "layer_types", None)
        self._kinds = frozenset(kinds or ())
        self._recurrent = RECURRENT in self._kinds
        slides = "sliding_attention" in self._kinds if kinds else True
        self._window = getattr(config, "sliding_window", None) if slides else None
        self._lock = Lock()

    def generate(self, requests: Sequence[Request], sampling: SamplingParams) -> list[Completion]:
        """Completions in order; a `ValueError` for an empty prompt or one that is too long."""
        groups: dict[int, list[int]] = defaultdict(list)
        sizes = [self._checked_length(request, sampling) for request in requests]
        if self._on_gpu:
            sizes = [max(sizes, default=0)] * len(sizes)
        for number, size in enumerate(sizes):
            groups[_round_up(size + _CACHE_SLACK, _CACHE_GRID)].append(number)
        completions: dict[int, Completion] = {}
        with self._lock:  # an abandoned batch may still run in another thread
            training = self.model.training
            self.model.eval()
            try:
                with torch.inference_mode(), rows_attended(self.model):
                    for cached, numbers in sorted(groups.items()):
                        for first in range(0, len(numbers), self._max_rows):
                            some = numbers[first : first + self._max_rows]
                            batch = self._decode([requests[n] for n in some], sampling, cached)
                            completions.update(zip(some, batch, strict=True))
            finally:
                self.model.train(training)
        return [completions[number] for number in range(len(requests))]

    def load_weights(self, weights: Mapping[str, Any], version: int) -> None:
        """Takes weights by names of the state dict; weights that do not fit change nothing."""
        self.refuse_if_closed()
        import_weights(self.model, weights)
        self.version = version

    def close(self) -> None:
        """Frees the model."""
        super().close()
        self.model = None

    def _checked_length(self, request: Request, sampling: SamplingParams) -> int:
        size = len(request.prompt_ids)
        if not size:
            raise ValueError("a prompt is empty: give one token or more")
        if self._recurrent and size == 1:
            raise ValueError(f"a prompt has 1 token, and {RECURRENT} needs 2: give two or more")
        if self._positions is not None and size + sampling.max_new_tokens > self._positions:
            raise ValueError(
                f"a prompt of {size} tokens and {sampling.max_new_tokens} new ones pass the model's"
                f" {self._positions} positions: lower max_prompt_tokens or max_new_tokens"
            )
        return size

    def _decode(
        self, requests: Sequence[Request], sampling: SamplingParams, cached: int
    ) -> list[Completion]:
        """Completes requests; ``cached`` is the first number of positions of the cache."""
        device = self.model.device
        rows = [_Row(request, sampling) for request in requests]
        places = self._filled(list(range(len(rows))))
        # The first pass of decoding reads the last token of a prompt.
        prefixes = [tuple(rows[r].prompt[:-1]) for r in places]
        cache = read_prefixes(self.model, prefixes, cached, self._recurrent, self._positions)
        tokens = torch.tensor([[rows[r].prompt[-1]] for r in places], device=device)
        positions = torch.tensor([[len(rows[r].prompt) - 1] for r in places], device=device)
        uniform = torch.tensor(np.stack([rows[r].uniform for r in places]), device=device)
        live = dict(enumerate(rows))
        pieces = token_bytes(self._tokenizer)
        for turn in range(sampling.max_new_tokens):
            if turn >= _CACHE_SLACK and (turn - _CACHE_SLACK) % _CACHE_GRID == 0:
                cache.grow(_CACHE_GRID)
            logits = self._next_logits(tokens, positions, cache)
            chosen, logprobs = _sample(logits, uniform[:, turn], sampling.temperature)
            ids, scores = chosen.tolist(), logprobs.tolist()
            for place, row in list(live.items()):
                row.ids.append(ids[place])
                row.logprobs.append(scores[place])
                if ids[place] in self._ends or row.stops.ended_by(pieces[ids[place]]):
                    row.finish = "stop"
                    del live[place]
            if not live:
                break
            tokens, positions = chosen[:, None], positions + 1
            kept = self._filled(list(live))
            if len(kept) <= 0.75 * len(tokens):
                keep = torch.tensor(kept, device=device)
                tokens, positions, uniform = tokens[keep], positions[keep], uniform[keep]
                cache.keep(keep)
                live = dict(enumerate(live.values()))
        return [
            Completion(
                ids=np.array(row.ids, dtype=np.int32),
                logprobs=np.array(row.logprobs, dtype=np.float32),
                finish_reason=row.finish,
                version=self.version,
            )
            for row in rows
        ]

    def _filled(self, places: list[int]) -> list[int]:
        """The places, filled up with copies of the first place to a multiple of eight."""
        return places + [places[0]] * (-len(places) % _ROWS)

    def _next_logits(self, tokens: Tensor, positions: Tensor, cache: RowCache) -> Tensor:
        """float32 logits (rows, vocabulary) after the next token of each row."""
        columns = torch.arange(cache.size, device=tokens.device)
        mask = torch.zeros(
            len(tokens), 1, 1, cache.size, dtype=self.model.dtype, device=tokens.device
        )
        mask.masked_fill_((columns > positions)[:, None, None], -torch.inf)
        masks: Tensor | dict[str, Tensor | None] = mask
        if self._recurrent:
            masks = {"full_attention": mask, RECURRENT: None}
        if self._window is not None:
            past = (columns <= positions - self._window)[:, None, None]
            sliding = mask.masked_fill(past, -torch.inf)
            kinds: dict[str, Tensor | None] = {"full_attention": mask, "sliding_attention": sliding}
            masks = kinds if self._kinds else sliding
        cache.aim(positions[:, 0])
        logits: Tensor = self.model(
            input_ids=tokens,
            position_ids=positions,
            attention_mask=masks,
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=1,
        ).logits
        return logits[:, -1, : self._vocabulary].float()


class _Row:
    """One request during generation."""

    def __init__(self, request: Request, sampling: SamplingParams) -> None:
        self.prompt: list[int] = request.prompt_ids.tolist()
        stream = np.random.Generator(np.random.Philox(key=request.seed))
        self.uniform = stream.random(sampling.max_new_tokens)
        self.finish: Literal["stop", "length"] = "length"
        self.ids: list[int] = []
        self.logprobs: list[float] = []
        self.stops = StopStrings(sampling)


def _sample(logits: Tensor, uniform: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """Tokens int64 (rows,) and their log-probabilities float32 (rows,).

    Temperature 0 gives the likeliest token, with its log-probability at temperature 1.
    """
    if temperature != 0 and temperature != 1:
        logits = logits / temperature
    logprobs = logits.log_softmax(-1)
    if temperature == 0:
        chosen = logits.argmax(-1)
    else:
        reached = logprobs.exp().double().cumsum(-1)
        target = uniform[:, None] * reached[:, -1:]
        chosen = torch.searchsorted(reached, target, right=True)[:, 0]
    return chosen, logprobs.gather(-1, chosen[:, None])[:, 0]


def _most_rows(most: int) -> int:
    """The largest multiple of eight up to ``most``, at least eight."""
    return max(_ROWS, most // _ROWS * _ROWS)


def _round_up(size: int, grid: int) -> int:
    return -(-size // grid) * grid
