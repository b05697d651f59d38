"""Attention of one new token a row over a `RowCache`, without copies of the grouped heads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

_NAME: Final = "trca_rows"
_SPECIAL: Final = ("softcap", "s_aux", "position_bias")


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

    Args:
        module: The attention layer.
        query: Shape (rows, heads, queries, d). For one query a row, query heads meet the key-value
            head that they share where it lies; other calls go to PyTorch's own attention, which
            would copy the keys and values for each query head.
        key: Shape (rows, key-value heads, size, d).
        value: Shape (rows, key-value heads, size, d).
        attention_mask: Additive, shape (rows, 1, 1, size).
        scaling: Factor of the scores; the root of 1/d for None.
        kwargs: What else the model says.
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
    """Lets a model that uses PyTorch's attention use `row_attention` meanwhile.

    Models that do not look their attention up by name (Falcon) keep their own.
    """
    config = model.config
    before = config._attn_implementation
    if before == "sdpa" and model._supports_attention_backend:
        config._attn_implementation = _NAME
    try:
        yield
    finally:
        config._attn_implementation = before
