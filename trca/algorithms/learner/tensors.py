"""From ragged rows to the padded tensors of one forward pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trca.algorithms.learner.rows import Rows, padded
from trca.policies.shared_prefixes import SharedPrefixes, share_prefixes

MOST_DISTINCT: Final = 0.9
"""Largest share of distinct prefixes among the tokens at which sharing saves time."""


@dataclass(frozen=True)
class TokenBatch:
    """B rows padded on the right to L tokens, and the K response tokens that count.

    Causal attention never reads the padding behind the tokens, so the batch needs no mask.

    Attributes:
        input_ids: int64 (B, L).
        row: int64 (K,), the row of each counted token.
        position: int64 (K,), the place before each counted token, which predicts the token.
        targets: int64 (K,), the id of each counted token.
        counted: bool (sum of R,), the response tokens that count.
        shared: The distinct prefixes of the rows; None if sharing saves no time.
    """

    input_ids: Tensor
    row: Tensor
    position: Tensor
    targets: Tensor
    counted: NDArray[np.bool_]
    shared: SharedPrefixes | None = None


def token_batch(
    rows: Rows, counted: NDArray[np.bool_], device: Any, share: bool = False
) -> TokenBatch:
    """Makes the tensors of rows.

    Args:
        rows: The rows, B at least 1.
        counted: bool (sum of R,), the response tokens that count.
        device: The device of the tensors.
        share: Whether the model can share prefixes.
    """
    lengths, responses = rows.lengths, rows.response_lengths
    width = padded(int(lengths.max()))
    ids = np.zeros((len(rows), width), dtype=np.int64)
    ids[np.arange(width) < lengths[:, None]] = rows.tokens
    row = np.repeat(np.arange(len(rows)), responses)
    first = np.repeat(rows.prompt_lengths - (np.cumsum(responses) - responses), responses)
    place = first + np.arange(len(row))
    row, place = row[counted], place[counted]
    shared = share_prefixes(ids, lengths, device) if share else None
    if shared and len(shared.owner) > MOST_DISTINCT * lengths.sum():
        shared = None
    return TokenBatch(
        input_ids=torch.from_numpy(ids).to(device),
        row=torch.from_numpy(row).to(device),
        position=torch.from_numpy(place - 1).to(device),
        targets=torch.from_numpy(ids[row, place]).to(device),
        counted=counted,
        shared=shared,
    )


def no_tokens(device: Any) -> TokenBatch:
    """The tensors of a pass over no rows: one short row with one token, which no loss reads."""
    place = torch.zeros(1, dtype=torch.int64, device=device)
    ids = torch.zeros((1, padded(1)), dtype=torch.int64, device=device)
    return TokenBatch(ids, place, place, place, np.ones(0, dtype=np.bool_))
