"""Attention of one new token per row over a `RowCache`, without copies of grouped heads."""

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
            head that they share without a copy; all further calls go to PyTorch's attention, which
            copies keys and values for each query head.
        key: Shape (rows, key-value heads, size, d).
        value: Shape (rows, key-value heads, size, d).
        attention_mask: Additive, shape (rows, 1, 1, size).
        scaling: Factor of the scores; None means the root of 1/d.
        kwargs: Further arguments of the model.
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
