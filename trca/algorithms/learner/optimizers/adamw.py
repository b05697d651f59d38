"""AdamW, the default: Adam with decoupled weight decay (Loshchilov and Hutter, 2019)."""

from __future__ import annotations

import torch
from ray.rllib.core.learner.learner import DEFAULT_OPTIMIZER

from trca.algorithms.learner.optimizers.optimizer import OptimizerSpec


def make_adamw(spec: OptimizerSpec) -> dict[str, torch.optim.Optimizer]:
    """AdamW over all trained parameters."""
    return {
        DEFAULT_OPTIMIZER: torch.optim.AdamW(
            spec.groups, betas=spec.betas, weight_decay=spec.weight_decay
        )
    }
