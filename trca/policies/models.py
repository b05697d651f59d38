"""Loads models and tokenizers from a folder or a Hugging Face name."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.utils import logging

from trca.common.cache import build_once, cache_folder, digest
from trca.common.errors import first_line
from trca.common.extras import missing_extra
from trca.common.files import sha256
from trca.policies.dtypes import AUTO, check_dtype
from trca.policies.weight_files import ADAPTER_CONFIG, is_adapter, weights_folder, weights_hash

_VOCABULARIES: Final = ("tokenizer.json", "vocab.json", "tokenizer.model")
_ADAPTER_WEIGHTS: Final = ("adapter_model.safetensors", "adapter_model.bin")
_TEXTS: Final = ("*.json", "*.jinja", "*.txt", "*.model")
"""Config and tokenizer of a model or an adapter."""
_MERGED: Final = 1
"""Version of the format of merged models."""


def load_model(name: str, dtype: str = "auto") -> Any:
    """Loads a causal LM from a folder or a Hugging Face name, in evaluation mode.

    Merges an adapter; see `merged_model` and `resolve_dtype`, also for the errors.
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

    ``auto`` is the precision of the saved model, given by name or config. Models saved in float16
    compute in float32: the range of float16 is too small for gradients, and bfloat16 would round
    the weights.
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
    """Loads a tokenizer; a `ValueError` for a folder without one, which Transformers accepts."""
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


def merged_model(folder: Path, resolve: Callable[[str], str] = str) -> Path:
    """Folder of an adapter's base model with the adapter in its weights.

    TRL, verl, LLaMA-Factory and peft save a fine-tuned model as an adapter. The first call merges
    in float32 and saves in the precision of the base model, in a folder named by a digest of
    adapter and base model. The tokenizer is the adapter's, or the base model's if the adapter has
    none.

    ``resolve`` gives the folder or hub name of the base model from the name in the adapter's
    config. An `ImportError` or `ValueError` names what is missing or does not fit.
    """
    if message := missing_extra("peft", "a LoRA adapter", "lora"):
        raise ImportError(message)
    base = _base_folder(folder, resolve)
    weights = next((p for name in _ADAPTER_WEIGHTS if (p := folder / name).is_file()), None)
    if weights is None:
        raise ValueError(f"{folder} is a LoRA adapter without {' or '.join(_ADAPTER_WEIGHTS)}")
    texts = [
        (path.name, sha256(path))
        for each in (folder, base)
        for pattern in _TEXTS
        for path in sorted(each.glob(pattern))
    ]
    name = f"{digest(texts, sha256(weights), weights_hash(str(base)))}-{_MERGED}"
    return build_once(cache_folder() / "merged" / name, lambda draft: _merge(folder, base, draft))


def _base_folder(adapter: Path, resolve: Callable[[str], str]) -> Path:
    """The folder of an adapter's base model, which is on this machine."""
    try:
        config = json.loads((adapter / ADAPTER_CONFIG).read_text())
        kind, task = config["peft_type"], config.get("task_type")
        base = str(config.get("base_model_name_or_path") or "")
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise ValueError(f"{adapter / ADAPTER_CONFIG} is not a config of peft: {error!r}") from None
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
        fix = f"{first_line(error)} in {ADAPTER_CONFIG}"
    else:
        fix = f"name a folder with weights or a hub name in {ADAPTER_CONFIG}"
    raise ValueError(
        f"{adapter} is a LoRA adapter, and its base model {base!r} (base_model_name_or_path) is"
        f" not on this machine: {fix}"
    )


def _merge(adapter: Path, base: Path, target: Path) -> None:
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
