"""LoRA adapters as models.

TRL, verl, LLaMA-Factory and peft save a fine-tuned model as an adapter: a folder with
``adapter_config.json``, which names the base model, and the adapter's weights. `merged_model` adds
the adapter to the weights of the base model and writes an ordinary folder into the cache. Training,
engines, the frozen reference and export then read the merged model.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from trca.common.cache import build_once, cache_folder, digest
from trca.common.errors import first_line
from trca.common.extras import missing_extra
from trca.common.files import sha256
from trca.policies.weight_files import weights_folder, weights_hash

_CONFIG: Final = "adapter_config.json"
_WEIGHTS: Final = ("adapter_model.safetensors", "adapter_model.bin")
_TEXTS: Final = ("*.json", "*.jinja", "*.txt", "*.model")
"""Config and tokenizer of a model or an adapter."""
_VERSION: Final = 1


def is_adapter(folder: Path) -> bool:
    """Whether a folder holds an adapter. Transformers too reads the adapter before a config."""
    return (folder / _CONFIG).is_file()


def merged_model(folder: Path, resolve: Callable[[str], str] = str) -> Path:
    """Folder of an adapter's base model with the adapter in its weights.

    The first call merges in float32 and saves in the precision of the base model. The tokenizer is
    the adapter's, or the base model's if the adapter has none.

    Args:
        folder: An adapter of a causal language model, in peft's format.
        resolve: Gives the folder or hub name of the base model, which is on this machine, from the
            name in the adapter's config.

    Returns:
        A folder of the cache, named by a digest of adapter and base model: the same content is
        merged once.

    Raises:
        ImportError: If the package ``peft`` is missing.
        ValueError: If the adapter is no LoRA adapter, lacks its weights or does not fit its base
            model, or if the base model is not on this machine.
    """
    if message := missing_extra("peft", "a LoRA adapter", "lora"):
        raise ImportError(message)
    base = _base_folder(folder, resolve)
    weights = next((p for name in _WEIGHTS if (p := folder / name).is_file()), None)
    if weights is None:
        raise ValueError(f"{folder} is a LoRA adapter without {' or '.join(_WEIGHTS)}")
    texts = [
        (path.name, sha256(path))
        for each in (folder, base)
        for pattern in _TEXTS
        for path in sorted(each.glob(pattern))
    ]
    name = f"{digest(texts, sha256(weights), weights_hash(str(base)))}-{_VERSION}"
    return build_once(cache_folder() / "merged" / name, lambda draft: _merge(folder, base, draft))


def _base_folder(adapter: Path, resolve: Callable[[str], str]) -> Path:
    """The folder of an adapter's base model.

    Raises:
        ValueError: If the adapter has another kind, or if its base model is not on this machine.
    """
    try:
        config = json.loads((adapter / _CONFIG).read_text())
        kind, task = config["peft_type"], config.get("task_type")
        base = str(config.get("base_model_name_or_path") or "")
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise ValueError(f"{adapter / _CONFIG} is no config of peft: {error!r}") from None
    if kind != "LORA" or task not in (None, "CAUSAL_LM"):
        raise ValueError(
            f"{adapter} is an adapter with peft_type {kind} and task_type {task}: give a LORA"
            " adapter of a CAUSAL_LM, or merge the adapter and give the merged model"
        )
    try:
        folder = weights_folder(resolve(base)) if base else adapter
        if folder != adapter and weights_hash(str(folder)):
            return folder
    except OSError:  # not in the hub's cache
        fix = f"run: hf download {base}"
    except ValueError as error:
        fix = f"{first_line(error)} in {_CONFIG}"
    else:
        fix = f"name a folder with weights or a hub name in {_CONFIG}"
    raise ValueError(
        f"{adapter} is a LoRA adapter, and its base model {base!r} (base_model_name_or_path) is"
        f" not on this machine: {fix}"
    )


def _merge(adapter: Path, base: Path, target: Path) -> None:
    import torch

    from trca.policies.models import load_model, load_tokenizer, quiet, resolve_dtype

    model = load_model(str(base), "float32")
    try:
        merged = _with_adapter(model, adapter)
    except (OSError, ValueError, RuntimeError, KeyError, ImportError) as error:
        raise ValueError(
            f"{adapter} is a LoRA adapter that cannot be merged into {base}: {first_line(error)}"
        ) from None
    with quiet():
        merged.to(getattr(torch, resolve_dtype(str(base), "auto"))).save_pretrained(target)
    try:
        tokenizer = load_tokenizer(str(adapter))
    except ValueError:
        tokenizer = load_tokenizer(str(base))
    tokenizer.save_pretrained(target)


def _with_adapter(model: Any, adapter: Path) -> Any:
    """The model with the adapter in its weights."""
    from peft import PeftConfig, PeftModelForCausalLM
    from peft.tuners.tuners_utils import BaseTunerLayer
    from peft.utils import load_peft_weights
    from peft.utils.other import AuxiliaryTrainingWrapper

    ends = (model.get_input_embeddings(), model.get_output_embeddings())
    names = tuple(f".{name}.weight" for name, module in model.named_modules() if module in ends)
    weights = load_peft_weights(str(adapter), device="cpu")
    # An adapter that was trained with further tokens holds the larger embeddings.
    rows = {len(tensor) for name, tensor in weights.items() if name.endswith(names)}
    if rows and rows != {model.config.vocab_size}:
        model.resize_token_embeddings(max(rows), mean_resizing=False)
    config = PeftConfig.from_pretrained(str(adapter))
    config.inference_mode = True
    tuned = PeftModelForCausalLM(model, config)
    trained = (BaseTunerLayer, AuxiliaryTrainingWrapper)
    ends = (model.get_input_embeddings(), model.get_output_embeddings())
    if model.config.tie_word_embeddings and any(isinstance(each, trained) for each in ends):
        raise ValueError(
            "it changes the embedding or the head, which share their weights; merge it with the"
            " program that trained it, and give the merged model"
        )
    report = tuned.load_adapter(str(adapter), "default", torch_device="cpu")
    if other := [*report.missing_keys, *report.unexpected_keys]:
        raise ValueError(f"{len(other)} weights do not fit, such as {other[0]}")
    return tuned.merge_and_unload(safe_merge=True)
