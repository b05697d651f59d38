"""Muon: momentum whose matrix is made nearly orthogonal before each step (Jordan, 2024).

trca train quickstart --set optimizer=examples/own_optimizer/muon.py:muon

PyTorch's `torch.optim.Muon` trains the hidden matrices, as PyTorch recommends. AdamW trains
embeddings, heads, norms and biases. A LoRA adapter consists of hidden matrices: Muon trains the
adapter without AdamW.

Where this differs from PyTorch's defaults:

=======================  ===========================================================================
Learning rate            Updates have the size of AdamW's (``adjust_lr_fn="match_rms_adamw"``, Liu
                         et al., 2025), so that one ``lr`` serves both optimizers.
Weight decay             The setting ``weight_decay``, 0 by default, instead of 0.1.
=======================  ===========================================================================
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from trca.algorithms.learner.optimizers import OptimizerSpec
from trca.policies.llm_module import LLMModule


def muon(spec: OptimizerSpec) -> dict[str, torch.optim.Optimizer]:
    """Muon over the hidden matrices, and AdamW over the other trained parameters."""
    hidden = hidden_matrices(spec.module)
    matrices = _groups(spec, lambda parameter: parameter in hidden)
    others = _groups(spec, lambda parameter: parameter not in hidden)
    optimizers: dict[str, torch.optim.Optimizer] = {}
    if matrices:
        optimizers["muon"] = torch.optim.Muon(
            matrices, weight_decay=spec.weight_decay, adjust_lr_fn="match_rms_adamw"
        )
    if others:
        optimizers["adamw"] = torch.optim.AdamW(
            others, betas=spec.betas, weight_decay=spec.weight_decay
        )
    return optimizers


def hidden_matrices(module: LLMModule) -> set[nn.Parameter]:
    """The trained matrices inside the layers: neither an embedding nor a head.

    Args:
        module: The policy, with its critic.
    """
    outside = {
        parameter
        for part in module.modules()
        if isinstance(part, nn.Embedding)
        for parameter in part.parameters()
    }
    heads = [module.model.get_output_embeddings(), getattr(module, "value_head", None)]
    outside.update(parameter for head in heads if head for parameter in head.parameters())
    return {
        parameter
        for parameter in module.parameters()
        if parameter.requires_grad and parameter.ndim == 2 and parameter not in outside
    }


def _groups(spec: OptimizerSpec, chosen: Any) -> list[dict[str, Any]]:
    """The groups of the spec with the chosen parameters; a group without any is left out."""
    groups = [
        {**group, "params": [parameter for parameter in group["params"] if chosen(parameter)]}
        for group in spec.groups
    ]
    return [group for group in groups if group["params"]]
