"""LoRA: a small trained adapter on every linear layer of a frozen model, through peft.

::

    model = load_model("Qwen/Qwen2.5-1.5B-Instruct", "bfloat16")
    add_lora(model, rank=16, alpha=32)
    export_weights(model)        # the adapter alone: 35 MiB in bfloat16 instead of 2.9 GiB
    with lora_off(model):        # the model as it was, bit for bit
        ...
    merge_lora(model)            # a plain model again, with the adapter in its weights

Agents of several roles can share the frozen model, each with an adapter of its own::

    add_lora(model, rank=16, alpha=32, name="critic")
    with lora_as(model, "critic"):
        model(...).loss.backward()             # gradients of this adapter alone
    export_weights(model, adapter="critic")    # for an engine of that role

In a state dict the two factors of a layer are ``<layer>.lora_A.weight``, (rank, inputs), and
``<layer>.lora_B.weight``, (outputs, rank); peft's own files put ``base_model.model.`` before them.
The layer computes ``W x + alpha / rank * B A x``.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, Final

import torch
from torch import Tensor, nn

from trca.common.names import unknown

ADAPTER: Final = "default"
"""Name of the adapter of a model that has one."""
_FACTORS: Final = ("lora_A", "lora_B")


def missing_peft() -> str:
    """What to do for LoRA on this machine; blank when peft is there."""
    return "" if find_spec("peft") else "LoRA needs peft: pip install 'trca[lora]'"


def add_lora(
    model: Any, rank: int, alpha: int, dtype: torch.dtype | None = None, name: str = ADAPTER
) -> None:
    """Adds an adapter to every linear layer but the head, and freezes all but adapters.

    It changes nothing yet: one of its factors is zero. The other is drawn from a seed of its own,
    so that all processes start alike. The first adapter that is added is the active one; see
    `lora_as` for others.

    Args:
        model: A Hugging Face causal LM.
        rank: Rank of the adapter.
        alpha: Its product is multiplied by ``alpha / rank``.
        dtype: Precision of the adapter; that of the model for None.
        name: Name of the adapter.
    """
    from peft import LoraConfig
    from transformers.pytorch_utils import Conv1D

    config = LoraConfig(
        r=rank,
        lora_alpha=alpha,
        target_modules="all-linear",
        lora_dropout=0.0,
        bias="none",
        fan_in_fan_out=any(isinstance(m, Conv1D) for m in model.modules()),
        task_type="CAUSAL_LM",
    )
    with torch.random.fork_rng(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Already found a `peft_config`")  # a second adapter
        torch.manual_seed(0)
        model.add_adapter(config, name)
    for layer in _layers(model):
        layer._active_adapter = [next(iter(model.peft_config))]
    for path, parameter in model.named_parameters():
        parameter.requires_grad_(_is_factor(path))
        if dtype is not None and parameter.requires_grad:
            parameter.data = parameter.data.to(dtype)


def share_bases(models: Sequence[Any]) -> None:
    """Lets models that were read from one place hold their frozen base once in memory.

    Each keeps its adapters. Models without one are trained whole and keep their base.

    Args:
        models: Causal LMs where they compute: moving one to another device gives it a base again.
    """
    bases: dict[Any, dict[str, nn.Parameter]] = {}
    for model in filter(has_lora, models):
        own = {n: p for n, p in model.named_parameters() if not _is_factor(n)}
        key = (model.name_or_path, model.dtype)
        for name, tensor in own.items() if key in bases else ():
            tensor.data = bases[key][name].data
        bases.setdefault(key, own)


def has_lora(model: nn.Module) -> bool:
    """Whether the model has an adapter."""
    return bool(getattr(model, "peft_config", None))


def lora_tensors(state: dict[str, Tensor], name: str = ADAPTER) -> dict[str, Tensor]:
    """An adapter's tensors in a state dict, by the names they travel under.

    Args:
        state: The state dict.
        name: Name of the adapter.
    """
    return {
        path.replace(f".{name}.weight", ".weight"): tensor
        for path, tensor in state.items()
        if _is_factor(path) and path.endswith(f".{name}.weight")
    }


@contextmanager
def lora_as(model: nn.Module, name: str) -> Iterator[None]:
    """Lets the model compute with another of its adapters.

    peft's own ``set_adapter`` freezes the others as well, which an optimizer would notice.

    Args:
        model: The model.
        name: Name of the adapter.

    Raises:
        ValueError: When the model has no such adapter.
    """
    known = getattr(model, "peft_config", {})
    if name not in known:
        raise unknown("adapter", name, tuple(known))
    before = [(layer, layer._active_adapter) for layer in _layers(model)]
    for layer, _ in before:
        layer._active_adapter = [name]
    try:
        yield
    finally:
        for layer, active in before:
            layer._active_adapter = active


@contextmanager
def lora_off(model: nn.Module) -> Iterator[None]:
    """Lets the model compute as it did before it had an adapter.

    peft's own ``disable_adapters`` freezes the adapter as well, which a backward pass would notice.
    """
    layers = _layers(model)
    for layer in layers:
        layer._disable_adapters = True
    try:
        yield
    finally:
        for layer in layers:
            layer._disable_adapters = False


def merge_lora(model: Any) -> None:
    """Adds the adapter to the weights and takes its layers out: a plain model again."""
    from peft.tuners.tuners_utils import BaseTunerLayer

    for name, layer in list(model.named_modules()):
        if isinstance(layer, BaseTunerLayer):
            layer.merge()
            above, _, own = name.rpartition(".")
            setattr(model.get_submodule(above), own, layer.get_base_layer())
    model.peft_config = {}
    model._hf_peft_config_loaded = False


def _layers(model: nn.Module) -> list[Any]:
    from peft.tuners.tuners_utils import BaseTunerLayer

    return [module for module in model.modules() if isinstance(module, BaseTunerLayer)]


def _is_factor(name: str) -> bool:
    return any(f".{factor}." in name for factor in _FACTORS)
