"""Decoding of rows at different positions: their prompts, keys, values, states and attention."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, Cache, DynamicCache
from transformers.cache_utils import DynamicLayer, LinearAttentionLayer
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

_CPU: Final = 8, 4096
"""Grid of the padded lengths, and most tokens of a pass: a CPU prefers few tokens."""
_GPU: Final = 64, 16384
"""The same for a GPU, which prefers few passes."""
_NAME: Final = "trca_rows"
_SPECIAL: Final = ("softcap", "s_aux", "position_bias")

Prefix = tuple[int, ...]


def read_prefixes(
    model: Any,
    prefixes: Sequence[Prefix],
    cached: int,
    recurrent: bool,
    positions: int | None = None,
) -> RowCache:
    """Returns keys, values and states of token sequences, one a row; equal ones are read once.

    A pass has several prompts of one padded width. Prompts are padded on the right, where causal
    attention ignores the padding. A recurrent state would include the padding, so a model with
    ``linear_attention`` layers reads each prompt in a separate pass without padding. ``cached`` is
    the first number of positions of the cache, ``positions`` that of the model.
    """
    owners: dict[Prefix, list[int]] = defaultdict(list)
    for place, prefix in enumerate(prefixes):
        owners[prefix].append(place)
    grid, most = _GPU if model.device.type == "cuda" else _CPU
    by_width: dict[int, list[Prefix]] = defaultdict(list)
    for prefix in owners:
        width = len(prefix) if recurrent else -(-max(len(prefix), 1) // grid) * grid
        by_width[min(width, positions or width)].append(prefix)
    cache = RowCache(len(prefixes), cached)
    for width, some in by_width.items():
        count = 1 if recurrent else max(most // width, 1)
        for first in range(0, len(some), count):
            lines = some[first : first + count]
            ids = np.zeros((len(lines), width), dtype=np.int64)
            for line, prefix in enumerate(lines):
                ids[line, : len(prefix)] = prefix
            # With sliding windows the config would drop keys outside the window.
            states = DynamicCache(config=model.config) if recurrent else DynamicCache()
            model(
                input_ids=torch.from_numpy(ids).to(model.device),
                position_ids=torch.arange(width, device=model.device)[None],
                past_key_values=states,
                use_cache=True,
                logits_to_keep=1,
            )
            pairs = [(line, p) for line, prefix in enumerate(lines) for p in owners[prefix]]
            which, places = torch.tensor(pairs, device=model.device).T
            cache.write(states, which, places)
    return cache


class RowCache(Cache):
    """A cache of tensors of one size (positions); every row writes at a separate position."""

    def __init__(self, rows: int, size: int) -> None:
        """Makes an empty cache; the first `write` sets the sizes of the heads."""
        super().__init__(layers=[])
        self._own: list[Any] = self.layers
        self.size = size
        self._rows = rows

    def write(self, read: DynamicCache, lines: Tensor, places: Tensor) -> None:
        """Copies ``lines`` of a finished prefill to the rows ``places``."""
        for number, layer in enumerate(read.layers):
            if number == len(self._own):
                recurrent = isinstance(layer, LinearAttentionLayer)
                kind = _StateLayer if recurrent else _RowLayer
                self._own.append(kind(layer, self._rows, self.size))
            self._own[number].write(layer, lines, places)

    @property
    def tensors(self) -> list[Tensor]:
        """Keys and values of each layer in turn, each (rows, heads, size, d)."""
        return [
            each
            for layer in self._own
            if isinstance(layer, _RowLayer)
            for each in (layer.keys, layer.values)
        ]

    def aim(self, positions: Tensor) -> None:
        """Sets the position of the next token of each row, int64 (rows,)."""
        for layer in self._own:
            layer.positions = positions

    def keep(self, rows: Tensor) -> None:
        """Keeps these rows, in this order."""
        for layer in self._own:
            layer.keep(rows)

    def grow(self, by: int) -> None:
        """Adds positions."""
        self.size += by
        for layer in self._own:
            layer.grow(by)


class _RowLayer(DynamicLayer):
    """One layer: keys and values (rows, heads, size, d)."""

    keys: Tensor
    values: Tensor
    positions: Tensor

    def __init__(self, like: Any, rows: int, size: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.keys = like.keys.new_zeros(rows, like.keys.shape[1], size, like.keys.shape[3])
        self.values = like.values.new_zeros(rows, like.values.shape[1], size, like.values.shape[3])
        self.is_initialized = True

    def write(self, read: Any, lines: Tensor, places: Tensor) -> None:
        width = read.keys.shape[2]
        self.keys[places, :, :width] = read.keys[lines]
        self.values[places, :, :width] = read.values[lines]

    def keep(self, rows: Tensor) -> None:
        self.keys, self.values = self.keys[rows], self.values[rows]

    def grow(self, by: int) -> None:
        self.keys = nn.functional.pad(self.keys, (0, 0, 0, by))
        self.values = nn.functional.pad(self.values, (0, 0, 0, by))

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        rows = torch.arange(len(self.positions), device=self.positions.device)
        self.keys[rows, :, self.positions] = key_states[:, :, 0]
        self.values[rows, :, self.positions] = value_states[:, :, 0]
        return self.keys, self.values


class _StateLayer(LinearAttentionLayer):
    """One layer of linear attention: states (rows, ...), which have no positions."""

    positions: Tensor

    def __init__(self, like: Any, rows: int, size: int) -> None:
        super().__init__(like.number_of_states)
        for states, read in self._pairs(like):
            for number, state in read.items():
                states[number] = state.new_zeros(rows, *state.shape[1:])
        for number in range(like.number_of_states):
            self.is_conv_states_initialized[number] = True
            self.is_recurrent_states_initialized[number] = True
            self.has_previous_state[number] = True
            self.conv_kernel_size[number] = like.conv_kernel_size[number]

    def write(self, read: Any, lines: Tensor, places: Tensor) -> None:
        for states, source in self._pairs(read):
            for number, state in states.items():
                state[places] = source[number][lines]

    def keep(self, rows: Tensor) -> None:
        for states, _ in self._pairs(self):
            for number, state in states.items():
                states[number] = state[rows]

    def grow(self, by: int) -> None:
        """A state has no positions."""

    def _pairs(self, other: Any) -> tuple[tuple[dict[int, Any], dict[int, Any]], ...]:
        """The states of each kind, of this layer and of another layer."""
        return (
            (self.conv_states, other.conv_states),
            (self.recurrent_states, other.recurrent_states),
        )


def row_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Attention as Hugging Face models call it.

    For one query a row, query heads meet the key-value head that they share without a copy. All
    further calls go to PyTorch's attention, which copies keys and values, (rows, key-value heads,
    size, d), for each query head. The mask is additive, (rows, 1, 1, size).
    """
    rows, heads, queries, width = query.shape
    if queries > 1 or attention_mask is None or any(kwargs.get(k) is not None for k in _SPECIAL):
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, scaling=scaling, **kwargs
        )
    shared = key.shape[1]
    grouped = query.reshape(rows, shared, heads // shared, width)
    scale = width**-0.5 if scaling is None else scaling
    scores = torch.matmul(grouped * scale, key.transpose(2, 3)) + attention_mask
    weights = scores.softmax(-1, dtype=torch.float32).to(query.dtype)
    return torch.matmul(weights, value).reshape(rows, 1, heads, value.shape[-1]), None


AttentionInterface.register(_NAME, row_attention)
AttentionMaskInterface.register(_NAME, sdpa_mask)


@contextmanager
def rows_attended(model: Any) -> Iterator[None]:
    """Replaces a model's PyTorch attention by `row_attention` within the context.

    Models that do not select their attention by name (Falcon) keep their attention.
    """
    config = model.config
    before = config._attn_implementation
    if before == "sdpa" and model._supports_attention_backend:
        config._attn_implementation = _NAME
    try:
        yield
    finally:
        config._attn_implementation = before
