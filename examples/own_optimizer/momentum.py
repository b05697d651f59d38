"""Stochastic gradient descent with momentum: an optimizer in a file of one's own.

trca train quickstart --set optimizer=examples/own_optimizer/momentum.py:momentum --set lr=0.1
"""

from __future__ import annotations

import torch

from trca.algorithms.learner.optimizers import OptimizerSpec


def momentum(spec: OptimizerSpec) -> dict[str, torch.optim.Optimizer]:
    """SGD with momentum 0.9 over all trained parameters."""
    return {"sgd": torch.optim.SGD(spec.groups, momentum=0.9, weight_decay=spec.weight_decay)}
