"""Keys, values and recurrent states of rows at different positions, for Hugging Face models."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers import Cache, DynamicCache
from transformers.cache_utils import DynamicLayer, LinearAttentionLayer


class RowCache(Cache):
    """A cache of tensors of one size; every row writes at a separate position.

    Attributes:
        size: Number of positions.
    """

    def __init__(self, rows: int, size: int) -> None:
        """Makes an empty cache; the first `write` sets the sizes of the heads."""
        super().__init__(layers=[])
        self._own: list[_RowLayer | _StateLayer] = []
        self.size = size
        self._rows = rows

    def write(self, read: DynamicCache, lines: Tensor, places: Tensor) -> None:
        """Copies ``lines`` of a finished prefill to the rows ``places``."""
        for number, layer in enumerate(read.layers):
            if number == len(self._own):
                recurrent = isinstance(layer, LinearAttentionLayer)
                kind: Any = _StateLayer if recurrent else _RowLayer
                self._own.append(kind(layer, self._rows, self.size))
                self.layers.append(self._own[-1])
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
