"""Splits a model over the processes that train it, with PyTorch's FSDP2.

Each process holds a shard of every parameter, gradient and moment of the optimizer. A process
gathers a layer only while the layer computes. The shards keep their precision, float32 for trained
parameters; ``mixed`` gathers and computes in bfloat16 and sums gradients in float32.

Every pass over the model, including scoring, is a collective operation: all processes must make the
same number of passes.
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

    Afterwards the model has a method ``score_tokens`` with the meaning of
    `trca.policies.logits.score_tokens`. The model's ``forward`` works too. ``mixed`` computes in
    bfloat16.
    """
    from transformers.modeling_layers import GradientCheckpointingLayer

    mesh = init_device_mesh(device, (distributed.get_world_size(),))
    policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32) if mixed else None
    settings: dict[str, Any] = {"mesh": mesh} | ({"mp_policy": policy} if policy else {})
    for layer in [m for m in model.modules() if isinstance(m, GradientCheckpointingLayer)]:
        fully_shard(layer, **settings)
    # A root that stays gathered would compute with its old embedding after an update.
    fully_shard(model, reshard_after_forward=True, **settings)
    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.set_gradient_divide_factor(1.0)  # sum, not mean: the rows are weighted already
            module.set_force_sum_reduction_for_comms(True)
    model.score_tokens = MethodType(score_tokens, model)
    register_fsdp_forward_method(model, "score_tokens")


def set_gradient_sync(model: Any, on: bool) -> None:
    """Sets whether the next backward passes sum a sharded model's gradients over the processes.

    Without synchronization each process keeps the full sum of its gradients, 4 bytes per trained
    parameter.
    """
    if isinstance(model, FSDPModule):
        model.set_requires_gradient_sync(on)


def gathered(tensor: Tensor) -> Tensor:
    """Gathers all shards of a tensor on every process. All processes must call it."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def split_like(tensor: Tensor, like: Tensor) -> Tensor:
    """Shards a full tensor, present on every process, in the same way as the tensor ``like``."""
    if not isinstance(like, DTensor):
        return tensor
    placed = tensor.to(like.device)
    return distribute_tensor(placed, like.device_mesh, like.placements, src_data_rank=None)
