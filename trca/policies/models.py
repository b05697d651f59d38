"""Models and tokenizers by name: the embedded tiny policy, folders, and Hugging Face names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast
from transformers.utils import logging

TINY: Final = "tiny"
SHRUNK: Final = "shrunk:"
_DTYPES: Final = {"auto": "auto", "float32": torch.float32, "bfloat16": torch.bfloat16}


def resolve_model(
    name: str, *, env_id: str | type, env_config: Mapping[str, Any] | None = None
) -> str:
    """Where the model of a name lies.

    Args:
        name: ``tiny`` for the embedded policy, built for this world on first use and then kept;
            ``shrunk:`` and the name of a known model for a small random one of its architecture,
            for dry runs; else a folder or a Hugging Face name, which stays as it is.
        env_id: The environment that the tiny policy is to speak, as `trca.envs.make` takes it.
        env_config: Keyword arguments of that environment.

    Returns:
        What `load_model` and `load_tokenizer` take.

    Raises:
        ValueError: When the name looks like a folder that is not there, or a shrunk architecture
            is unknown.
    """
    if name == TINY:
        from trca.policies.tiny import tiny_policy

        return str(tiny_policy(env_id, env_config or {}))
    if name.startswith(SHRUNK):
        from trca.policies.shrunk import shrunk_model

        return str(shrunk_model(name.removeprefix(SHRUNK)))
    if Path(name).expanduser().is_dir():
        return str(Path(name).expanduser())
    if name.startswith(("/", ".", "~")) or name.count("/") > 1:
        raise ValueError(
            f"no model at {name!r}: give {TINY}, a folder with config.json, or a Hugging Face name"
            " such as Qwen/Qwen2.5-1.5B-Instruct"
        )
    return name


def load_model(name: str, dtype: str = "auto") -> Any:
    """A causal LM from a folder or a Hugging Face name, in evaluation mode.

    Args:
        name: See `resolve_model`.
        dtype: ``float32``, ``bfloat16`` or ``auto``.

    Raises:
        ValueError: For another dtype.
    """
    if dtype not in _DTYPES:
        raise ValueError(f"unknown dtype {dtype!r}: choose from {', '.join(_DTYPES)}")
    with quiet():
        return AutoModelForCausalLM.from_pretrained(name, dtype=_DTYPES[dtype])


def load_tokenizer(name: str) -> Any:
    """The tokenizer of a folder or a Hugging Face name."""
    if Path(name, "tokenizer.json").is_file() and not Path(name, "vocab.json").is_file():
        return PreTrainedTokenizerFast.from_pretrained(name)
    return AutoTokenizer.from_pretrained(name)


@contextmanager
def quiet() -> Iterator[None]:
    """Without the progress bars of reading and writing a model's files."""
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()
