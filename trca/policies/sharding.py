"""Splits a model over the processes that train it, with PyTorch's FSDP2.

Each process holds its share of every parameter, gradient and moment of the optimizer. A layer is
whole in a process only while it computes. The shares stay in their own precision, float32 where
they are trained; ``mixed`` gathers and computes in bfloat16 and adds gradients up in float32.

Every pass over the model, scoring too, is a meeting of all processes: they must agree on how many
there are.
"""

from __future__ import annotations

from types import MethodType
from typing import Any

import torch
from torch import Tensor, distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import (
    FSDPModule,
    MixedPrecisionPolicy,
    fully_shard,
    register_fsdp_forward_method,
)
from torch.distributed.tensor import DTensor, distribute_tensor

from trca.policies.logits import score_tokens


def shard(model: Any, device: str, mixed: bool) -> None:
    """Splits a model over the processes of the default group, which hold the same weights.

    Afterwards ``model.score_tokens`` does what `trca.policies.logits.score_tokens` does; the
    model's own ``forward`` works too.

    Args:
        model: A Hugging Face causal LM.
        device: Type of the devices, ``cpu`` or ``cuda``.
        mixed: Whether to compute in bfloat16.
    """
    from transformers.modeling_layers import GradientCheckpointingLayer

    mesh = init_device_mesh(device, (distributed.get_world_size(),))
    policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32) if mixed else None
    settings: dict[str, Any] = {"mesh": mesh} | ({"mp_policy": policy} if policy else {})
    for layer in [m for m in model.modules() if isinstance(m, GradientCheckpointingLayer)]:
        fully_shard(layer, **settings)
    # A root that stays gathered would go on with its old embedding after an update.
    fully_shard(model, reshard_after_forward=True, **settings)
    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.set_gradient_divide_factor(1.0)  # the sum: rows have their weights already
            module.set_force_sum_reduction_for_comms(True)
    model.score_tokens = MethodType(score_tokens, model)
    register_fsdp_forward_method(model, "score_tokens")


def set_gradient_sync(model: Any, on: bool) -> None:
    """Sets whether the next backward passes add a shared model's gradients up over the processes.

    Until one does, each process keeps the sum of its own gradients whole, 4 bytes a trained
    parameter. Where the model is not shared this does nothing.
    """
    if isinstance(model, FSDPModule):
        model.set_requires_gradient_sync(on)


def gathered(tensor: Tensor) -> Tensor:
    """A tensor with all its shares, on every process; all call this together."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def own_share(tensor: Tensor) -> Tensor:
    """The part of a tensor that this process holds."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def split_like(tensor: Tensor, like: Tensor) -> Tensor:
    """Splits a whole tensor, which every process has, as another one is split."""
    if not isinstance(like, DTensor):
        return tensor
    placed = tensor.to(like.device)
    return distribute_tensor(placed, like.device_mesh, like.placements, src_data_rank=None)
