"""From hidden states to log-probabilities of chosen tokens, computed only at their positions."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from trca.policies.shared_prefixes import SharedPrefixes, hidden_places

CHUNK: Final = 1024
"""Largest number of tokens with logits in memory at the same time."""


def head_logits(model: Any, hidden: Tensor) -> Tensor:
    """Returns the logits (..., V) of a causal LM for hidden states of its last layer, (..., d).

    Applies the same scaling (Granite, Cohere) and soft-capping (Gemma) as the model's ``forward``.
    """
    logits: Tensor = model.get_output_embeddings()(hidden)
    config = model.config.get_text_config()
    if scale := getattr(config, "logit_scale", None):
        logits = logits * scale
    if scale := getattr(config, "logits_scaling", None):
        logits = logits / scale
    if cap := getattr(config, "final_logit_softcapping", None):
        logits = torch.tanh(logits / cap) * cap
    return logits


def score_tokens(
    model: Any,
    input_ids: Tensor,
    row: Tensor,
    position: Tensor,
    targets: Tensor,
    *,
    vocabulary: int,
    temperature: float = 1.0,
    shared: SharedPrefixes | None = None,
) -> tuple[Tensor, Tensor]:
    """Runs a causal LM and scores chosen tokens.

    Args:
        model: A Hugging Face causal LM.
        input_ids: int64 (B, L), padded on the right, which causal attention never reads.
        row: int64 (K,), the row of each scored token.
        position: int64 (K,), the position before the token. Its hidden state predicts the token.
        targets: int64 (K,), the token ids.
        vocabulary: See `token_logprobs`.
        temperature: See `token_logprobs`.
        shared: The distinct prefixes of the rows, each computed once; `None` to run the rows.

    Returns:
        float32 log-probabilities (K,) and float32 entropies (K,) in nats.
    """
    inputs, row, position = hidden_places(input_ids, row, position, shared)
    hidden = model.base_model(**inputs, use_cache=False).last_hidden_state
    return token_logprobs(
        model, hidden[row, position], targets, vocabulary=vocabulary, temperature=temperature
    )


def token_logprobs(
    model: Any,
    hidden: Tensor,
    targets: Tensor,
    *,
    vocabulary: int,
    temperature: float = 1.0,
    chunk: int = CHUNK,
) -> tuple[Tensor, Tensor]:
    """Returns the log-probability and the entropy in nats of each target, float32 (K,) each.

    The head processes hidden states (K, d) in chunks, and computes each chunk again in the backward
    pass: at most ``chunk`` x V logits are in memory. Logits of ids from ``vocabulary`` on are left
    out.
    """

    def score(hidden: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        logits = head_logits(model, hidden)[:, :vocabulary].float()
        if temperature != 1.0:
            logits = logits / temperature
        logprobs = logits.log_softmax(-1)
        entropy = -(logprobs.exp() * logprobs).sum(-1)
        return logprobs.gather(-1, targets[:, None])[:, 0], entropy

    if len(targets) <= chunk:
        return score(hidden, targets)
    parts = [
        checkpoint(score, h, t, use_reentrant=False)
        for h, t in zip(hidden.split(chunk), targets.split(chunk), strict=True)
    ]
    return torch.cat([p[0] for p in parts]), torch.cat([p[1] for p in parts])
