"""LoRA: a small trained adapter on every linear layer of a frozen model, through peft.

::

    model = load_model("Qwen/Qwen2.5-1.5B-Instruct", "bfloat16")
    add_lora(model, rank=16, alpha=32)
    export_weights(model)        # only the adapter: 35 MiB in bfloat16 instead of 2.9 GiB
    with lora_off(model):        # the original model, bit for bit
        ...
    merge_lora(model)            # a plain model again, with the adapter in its weights

Agents of several roles can share the frozen model, with one adapter per role::

    add_lora(model, rank=16, alpha=32, name="critic")
    with lora_as(model, "critic"):
        model(...).loss.backward()             # gradients only of this adapter
    export_weights(model, adapter="critic")    # for an engine of that role

In a state dict the two factors of a layer are ``<layer>.lora_A.weight``, (rank, inputs), and
``<layer>.lora_B.weight``, (outputs, rank); peft's files add the prefix ``base_model.model.``.
The layer computes ``W x + alpha / rank * B A x``.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import torch
from torch import Tensor, nn

from trca.common.names import unknown

ADAPTER: Final = "default"
"""Name of the adapter of a model that has one."""
_FACTORS: Final = ("lora_A", "lora_B")


def add_lora(
    model: Any, rank: int, alpha: int, dtype: torch.dtype | None = None, name: str = ADAPTER
) -> None:
    """Adds an adapter to every linear layer except the head, and freezes all other weights.

    A new adapter does not change the model's outputs: factor B is zero. Factor A is drawn from a
    fixed seed, so that all processes start with the same adapter. The first adapter is the active
    adapter; `lora_as` activates another. Without ``dtype`` the adapter has the model's precision.
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
    """Stores the frozen base of models from the same folder once in memory.

    Each model keeps its adapters. A model without an adapter trains all its weights and keeps its
    base. The models are on their final device: a move to another device copies the base.
    """
    bases: dict[Any, dict[str, nn.Parameter]] = {}
    for model in filter(has_lora, models):
        base = {n: p for n, p in model.named_parameters() if not _is_factor(n)}
        key = (model.name_or_path, model.dtype)
        for name, tensor in base.items() if key in bases else ():
            tensor.data = bases[key][name].data
        bases.setdefault(key, base)


def has_lora(model: nn.Module) -> bool:
    """Whether the model has an adapter."""
    return bool(getattr(model, "peft_config", None))


def lora_tensors(state: dict[str, Tensor], name: str = ADAPTER) -> dict[str, Tensor]:
    """Returns an adapter's tensors of a state dict, with the adapter's name left out."""
    return {
        path.replace(f".{name}.weight", ".weight"): tensor
        for path, tensor in state.items()
        if _is_factor(path) and path.endswith(f".{name}.weight")
    }


@contextmanager
def lora_as(model: nn.Module, name: str) -> Iterator[None]:
    """Activates another adapter of the model inside the context.

    peft's ``set_adapter`` also freezes all inactive adapters, which would stop their training.
    """
    adapters = getattr(model, "peft_config", {})
    if name not in adapters:
        raise unknown("adapter", name, tuple(adapters))
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
    """Disables all adapters inside the context: the model computes as without LoRA.

    peft's ``disable_adapters`` also freezes the adapter, which would stop its gradients.
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
    """Adds the adapter to the weights and removes its layers. The result is a plain model."""
    from peft.tuners.tuners_utils import BaseTunerLayer

    for name, layer in list(model.named_modules()):
        if isinstance(layer, BaseTunerLayer):
            layer.merge()
            parent, _, child = name.rpartition(".")
            setattr(model.get_submodule(parent), child, layer.get_base_layer())
    model.peft_config = {}
    model._hf_peft_config_loaded = False


def _layers(model: nn.Module) -> list[Any]:
    from peft.tuners.tuners_utils import BaseTunerLayer

    return [module for module in model.modules() if isinstance(module, BaseTunerLayer)]


def _is_factor(name: str) -> bool:
    return any(f".{factor}." in name for factor in _FACTORS)
