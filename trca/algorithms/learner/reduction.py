"""`Reduction`: sums over the learners, of numbers and of gradients.

Gradients travel in buckets, so that no copy holds all gradients.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

BUCKET_BYTES: Final = 32 * 2**20


@dataclass(frozen=True)
class Reduction:
    """Sums over all learners, which call each method together.

    Attributes:
        distributed: Whether there are several learners.
        sharded: Whether the learners split the model. FSDP adds the gradients up then.
        device: The device of this learner.
    """

    distributed: bool
    sharded: bool
    device: Any

    def numbers(self, values: Any, largest: bool = False) -> Any:
        """The sum of each number over all learners, or with ``largest`` the largest of each.

        Returns float64 (n,); the values themselves for one learner.
        """
        if not self.distributed:
            return values
        tensor = torch.from_numpy(np.asarray(values, dtype=np.float64)).to(self.device)
        reduce = torch.distributed.ReduceOp
        torch.distributed.all_reduce(tensor, reduce.MAX if largest else reduce.SUM)
        return tensor.cpu().numpy()

    def gradients(self, parameters: Sequence[torch.nn.Parameter]) -> None:
        """Replaces the gradient of each parameter by its sum; without a gradient by zeros.

        An optimizer with momentum moves a parameter whose gradient is zero, and leaves a parameter
        without a gradient in place. So one learner gets the zeros that several learners get.
        """
        for parameter in parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        if self.distributed and not self.sharded:
            add_up([p.grad for p in parameters if p.grad is not None])


def add_up(gradients: Sequence[Tensor], bucket_bytes: int = BUCKET_BYTES) -> None:
    """Replaces each gradient by its sum over the learners, which all call this together.

    Gradients have the same order and shapes on every learner. Small gradients travel together in
    one copy of at most ``bucket_bytes``. A larger gradient travels without a copy.
    """
    for bucket in buckets(gradients, bucket_bytes):
        if len(bucket) == 1 and bucket[0].is_contiguous():
            torch.distributed.all_reduce(bucket[0])
            continue
        flat = torch.cat([gradient.reshape(-1) for gradient in bucket])
        torch.distributed.all_reduce(flat)
        parts = flat.split([gradient.numel() for gradient in bucket])
        for gradient, part in zip(bucket, parts, strict=True):
            gradient.copy_(part.view_as(gradient))


def buckets(gradients: Sequence[Tensor], bucket_bytes: int) -> Iterator[list[Tensor]]:
    """Consecutive gradients of one precision, at most ``bucket_bytes`` or one larger gradient."""
    bucket: list[Tensor] = []
    size = 0
    for gradient in gradients:
        if bucket and (size + gradient.nbytes > bucket_bytes or gradient.dtype != bucket[0].dtype):
            yield bucket
            bucket, size = [], 0
        bucket.append(gradient)
        size += gradient.nbytes
    if bucket:
        yield bucket
