"""Reads prompts into a `RowCache`.

A pass has several prompts of one padded width. Prompts are padded on the right, where causal
attention ignores the padding. A recurrent state would include the padding, so a model with
``linear_attention`` layers reads each prompt in a separate pass without padding.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import torch
from transformers import DynamicCache

from trca.policies.engines.row_cache import RowCache

_CPU: Final = 8, 4096
"""Grid of the padded lengths, and most tokens of a pass: a CPU prefers few tokens."""
_GPU: Final = 64, 16384
"""The same for a GPU, which prefers few passes."""

Prefix = tuple[int, ...]


def read_prefixes(
    model: Any,
    prefixes: Sequence[Prefix],
    cached: int,
    recurrent: bool,
    positions: int | None = None,
) -> RowCache:
    """Returns keys, values and states of token sequences; equal sequences are read once.

    Args:
        model: A Hugging Face causal LM.
        prefixes: The sequences, one per row; not empty for a model with ``linear_attention``.
        cached: First number of positions of the cache.
        recurrent: Whether the model has ``linear_attention`` layers.
        positions: Number of positions of the model; None without a limit.
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
            states = _read(model, lines, width, recurrent)
            pairs = [(line, p) for line, prefix in enumerate(lines) for p in owners[prefix]]
            which, places = torch.tensor(pairs, device=model.device).T
            cache.write(states, which, places)
    return cache


def _read(model: Any, prefixes: Sequence[Prefix], width: int, recurrent: bool) -> DynamicCache:
    ids = np.zeros((len(prefixes), width), dtype=np.int64)
    for line, prefix in enumerate(prefixes):
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
    return states
