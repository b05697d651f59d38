"""Adds gradients up over the learners in buckets, so that no copy holds all gradients."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import torch
from torch import Tensor

BUCKET_BYTES: Final = 32 * 2**20


def add_up(gradients: Sequence[Tensor], bucket_bytes: int = BUCKET_BYTES) -> None:
    """Replaces each gradient by its sum over the learners, which all call this together.

    Small gradients travel together in one copy of at most ``bucket_bytes``. A larger gradient
    travels without a copy.

    Args:
        gradients: The gradients, in the same order and of the same shapes on every learner.
        bucket_bytes: Size of a bucket.
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
