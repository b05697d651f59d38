"""`Reduction`: sums over the learners, of numbers and of gradients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from trca.algorithms.learner.gradients import add_up


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

        Args:
            values: float (n,).
            largest: Whether to take the largest.

        Returns:
            float64 (n,); the values themselves for one learner.
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
