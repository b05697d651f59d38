"""Loads models and tokenizers from a folder or a Hugging Face name."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.utils import logging

from trca.policies.adapters import is_adapter, merged_model
from trca.policies.dtypes import AUTO, check_dtype

_VOCABULARIES: Final = ("tokenizer.json", "vocab.json", "tokenizer.model")


def load_model(name: str, dtype: str = "auto") -> Any:
    """Loads a causal LM from a folder or a Hugging Face name, in evaluation mode.

    Args:
        name: A folder or a Hugging Face name, also of a LoRA adapter; see `resolve_model`.
        dtype: ``float32``, ``bfloat16`` or ``auto``; see `resolve_dtype`.

    Raises:
        ImportError: See `merged_model`.
        ValueError: If the dtype is unknown, or an adapter cannot be merged.
    """
    if is_adapter(Path(name)):
        name = str(merged_model(Path(name)))
    resolved = resolve_dtype(name, dtype)
    with quiet():
        model = AutoModelForCausalLM.from_pretrained(name, dtype=getattr(torch, resolved))
    if getattr(model.config.get_text_config(), "attn_logit_softcapping", None):
        model.set_attn_implementation("eager")  # PyTorch's attention does not apply the soft cap
    return model


def resolve_dtype(model: Any, dtype: str) -> str:
    """Returns the common precision of engine, reference and the trainer's arithmetic.

    Args:
        model: Name of the model (see `resolve_model`), or its config.
        dtype: ``float32`` or ``bfloat16``, returned unchanged, or ``auto`` for the precision of
            the saved model. Models saved in float16 compute in float32: the range of float16 is
            too small for gradients, and bfloat16 would round the weights.

    Raises:
        ValueError: If the dtype is unknown.
    """
    if dtype == AUTO:
        config = AutoConfig.from_pretrained(model) if isinstance(model, str) else model
        saved = config.get_text_config().dtype
        return "bfloat16" if saved in (torch.bfloat16, "bfloat16") else "float32"
    return check_dtype(dtype)


def bfloat16_slowdown() -> float:
    """Returns the time of a matrix product in bfloat16 on this processor, in times of float32.

    About 0.5 with bfloat16 instructions (avx512_bf16, amx_bf16), and 2 to 10 without.
    """
    seconds = []
    for dtype in (torch.bfloat16, torch.float32):
        factors = torch.ones((256, 512), dtype=dtype), torch.ones((512, 512), dtype=dtype)
        rounds = []
        for _ in range(4):  # the first round includes preparation
            start = time.perf_counter()
            torch.mm(*factors)
            rounds.append(time.perf_counter() - start)
        seconds.append(min(rounds))
    return seconds[0] / seconds[1]


def checkpoint_layers(model: Any) -> None:
    """Makes the backward pass compute the activations of each layer again, without dropout.

    Transformers checkpoints a layer only in training mode. Therefore only the layers switch to
    training mode. The modules inside the layers stay in evaluation mode, and every dropout rate of
    a layer or of the config becomes 0.

    Args:
        model: A Hugging Face model in evaluation mode.

    Raises:
        ValueError: If the architecture does not support checkpointing.
    """
    model.gradient_checkpointing_enable({"use_reentrant": False})
    layers = [m for m in model.modules() if isinstance(m, GradientCheckpointingLayer)]
    for owner in (model.config, *layers):
        for name, value in list(vars(owner).items()):
            if "dropout" in name and isinstance(value, float):
                setattr(owner, name, 0.0)
    for layer in layers:
        layer.training = True


def load_tokenizer(name: str) -> Any:
    """Loads the tokenizer of a folder or a Hugging Face name.

    Raises:
        ValueError: If a folder has no tokenizer. (Transformers would create an empty tokenizer.)
    """
    folder = Path(name)
    if folder.is_dir() and not any((folder / file).is_file() for file in _VOCABULARIES):
        raise ValueError(
            f"{name} has no tokenizer: save one there, as one of {', '.join(_VOCABULARIES)}"
        )
    if Path(folder, "tokenizer.json").is_file() and not Path(folder, "vocab.json").is_file():
        return PreTrainedTokenizerFast.from_pretrained(name)
    return AutoTokenizer.from_pretrained(name)


@contextmanager
def quiet() -> Iterator[None]:
    """Hides the progress bars of loading and saving a model."""
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()
