"""Computes the common first tokens of rows once.

The steps of a rollout group share their instruction, and often more text: rows that begin with the
same tokens have the same hidden states at these tokens. The embeddings, projections, norms and
feed-forward layers of a causal LM treat each token independently, so they run only over the
distinct prefixes. Attention runs over the rows; the queries, keys and values of a row are gathered
from its prefixes. The gradient of a shared prefix is the sum over its rows. The result equals a
separate pass over each row, up to rounding.

::

    shared = share_prefixes(ids, lengths)
    hidden = model.base_model(**shared.inputs(), use_cache=False).last_hidden_state
    hidden[0, shared.node[row, position]]  # equals the result of the padded rows
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

_NAME: Final = "trca_shared_prefixes"
ARCHITECTURES: Final = frozenset(
    {"llama", "qwen2", "qwen3", "qwen3_moe", "mistral", "phi3", "smollm3", "olmo2", "granite"}
)
"""Architectures with rotary positions and full attention that pass extra arguments on to their
attention; the tests compare each with its plain forward pass."""


@dataclass(frozen=True)
class SharedPrefixes:
    """The U distinct prefixes of B rows padded to L tokens, as a tree with one token per prefix."""

    input_ids: Tensor  # int64 (1, U), the last token of each prefix
    position_ids: Tensor  # int64 (1, U), the position of this token in a row
    node: Tensor  # int64 (B, L), the prefix that ends at each position; 0 on the padding
    owner: Tensor  # int64 (U,), a position (row * L + column) where each prefix ends

    def inputs(self) -> dict[str, Any]:
        """Returns the arguments of the model's forward pass, with a mask that models keep as is."""
        return {
            "input_ids": self.input_ids,
            "position_ids": self.position_ids,
            "attention_mask": torch.zeros((1, 1, 1, 1), device=self.node.device),
            "shared_prefixes": self,
        }


def share_prefixes(
    ids: NDArray[np.int64], lengths: NDArray[np.int64], device: Any = "cpu"
) -> SharedPrefixes:
    """Finds the distinct prefixes of rows.

    Args:
        ids: int64 (B, L), padded on the right.
        lengths: int64 (B,), the number of tokens of each row without padding.
        device: Device of the tensors.
    """
    count, width = ids.shape
    inside = np.arange(width) < lengths[:, None]
    # In the sorted order, a row shares its longest common prefix with the previous row.
    order = np.array(sorted(range(count), key=lambda k: ids[k, : lengths[k]].tobytes()))
    both = inside[order[1:]] & inside[order[:-1]]
    differs = ~(both & (ids[order[1:]] == ids[order[:-1]]))
    common = np.where(differs.any(axis=1), differs.argmax(axis=1), width)
    distinct = inside.copy()
    distinct[order[1:]] &= np.arange(width) >= common[:, None]
    node = np.zeros((count, width), dtype=np.int64)
    node[distinct] = np.arange(distinct.sum())
    for before, row, size in zip(order, order[1:], common, strict=False):
        node[row, :size] = node[before, :size]
    owner = np.flatnonzero(distinct)
    arrays = (ids.ravel()[owner][None], (owner % width)[None], node, owner)
    return SharedPrefixes(*(torch.from_numpy(array).to(device) for array in arrays))


def hidden_places(
    input_ids: Tensor, row: Tensor, position: Tensor, shared: SharedPrefixes | None
) -> tuple[dict[str, Any], Tensor, Tensor]:
    """Returns the inputs of a forward pass, and the indices of row positions in its hidden states.

    Args:
        input_ids: int64 (B, L), the padded rows.
        row: int64 (K,), the row of each position.
        position: int64 (K,), the column of each position.
        shared: The distinct prefixes of the rows; `None` to run the padded rows.

    Returns:
        The arguments of the pass, and the first two indices of the hidden states, int64 (K,) each.
    """
    if shared is None:
        return {"input_ids": input_ids}, row, position
    return shared.inputs(), torch.zeros_like(row), shared.node[row, position]


def enable_sharing(model: Any) -> None:
    """Makes a causal LM's attention accept `SharedPrefixes`, if the architecture allows it.

    A forward pass without `SharedPrefixes` is unchanged.
    """
    config = model.config
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    window = getattr(config, "sliding_window", None) and getattr(config, "use_sliding_window", True)
    if (
        config.model_type in ARCHITECTURES
        and kinds == {"full_attention"}
        and not window
        and config._attn_implementation == "sdpa"
    ):
        config._attn_implementation = _NAME


def shares(model: Any) -> bool:
    """Whether a model's attention accepts `SharedPrefixes`."""
    return bool(model.config._attn_implementation == _NAME)


def attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    shared_prefixes: SharedPrefixes | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Computes attention, with the signature of Hugging Face's attention functions.

    Args:
        module: The attention layer.
        query: Shape (1, heads, U, d).
        key: Shape (1, key-value heads, U, d).
        value: Shape (1, key-value heads, U, d).
        attention_mask: Ignored with shared prefixes: attention is causal along the rows.
        shared_prefixes: The rows; `None` for PyTorch's attention over the given tokens.
        kwargs: Further arguments of the model.

    Returns:
        Shape (1, U, heads, d).
    """
    if shared_prefixes is None:
        return sdpa_attention_forward(module, query, key, value, attention_mask, **kwargs)
    node, (rows, width) = shared_prefixes.node.flatten(), shared_prefixes.node.shape
    dtype = query.dtype
    if dtype == torch.bfloat16 and query.device.type == "cpu":
        # PyTorch's attention on a CPU takes twice the time backwards in bfloat16.
        query, key, value = query.float(), key.float(), value.float()

    def gathered(states: Tensor) -> Tensor:
        heads, d = states.shape[1], states.shape[3]
        flat = states.transpose(1, 2).reshape(-1, heads * d)
        return flat.index_select(0, node).view(rows, width, heads, d).transpose(1, 2)

    out, _ = sdpa_attention_forward(
        module, gathered(query), gathered(key), gathered(value), None, **kwargs
    )
    heads, d = out.shape[2:]
    out = out.reshape(rows * width, heads, d).index_select(0, shared_prefixes.owner)
    return out[None].to(dtype), None


AttentionInterface.register(_NAME, attention)
AttentionMaskInterface.register(_NAME, sdpa_mask)
