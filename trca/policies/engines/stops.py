"""Tokens that end a completion."""

from __future__ import annotations

from typing import Any


def end_ids(model: Any, tokenizer: Any) -> frozenset[int]:
    """Ids of the end tokens of a model and its tokenizer.

    Args:
        model: A Hugging Face causal LM.
        tokenizer: Its tokenizer.
    """
    config = getattr(model, "generation_config", None)
    ends = getattr(config, "eos_token_id", None)
    ids = ends if isinstance(ends, list) else [ends]
    return frozenset(i for i in [*ids, tokenizer.eos_token_id] if i is not None)
