"""The changes of training: weights and the state of optimizers, as tensors by name.

Sharded learners hold shares of the tensors (`trca.policies.sharding`). All learners write one
checkpoint together, each its shares, and any number of learners reads the checkpoint.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from trca.policies.sharding import split_like

WEIGHTS: Final = "weights/"

Shapes = dict[str, tuple[torch.Size, torch.dtype]]
"""Shape of each tensor before a split, and its precision, by name."""


def training_tensors(model: nn.Module, optimizers: Iterable[Optimizer]) -> dict[str, Tensor]:
    """The trained weights, ``weights/NAME``, and the state of each weight, ``PART/NAME``.

    AdamW's parts are ``step``, ``exp_avg`` and ``exp_avg_sq``, after the first step.

    Raises:
        TypeError: When an optimizer keeps a value that is no tensor.
    """
    tensors = {}
    states = [optimizer.state for optimizer in optimizers]
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        tensors[WEIGHTS + name] = parameter.detach()
        for state in states:
            for part, value in state.get(parameter, {}).items():
                if not isinstance(value, Tensor):
                    raise TypeError(
                        f"the optimizer keeps {part} of {name} as {type(value).__name__}: keep the"
                        " value as a tensor, or set sharding: none"
                    )
                tensors[f"{part}/{name}"] = value
    return tensors


def make_state(model: nn.Module, optimizers: Iterable[Optimizer], shapes: Shapes) -> None:
    """Gives optimizers the state of a checkpoint with these shapes, all zeros, to be filled in."""
    parameters = {n: p for n, p in model.named_parameters() if p.requires_grad}
    optimizer_of = {
        parameter: optimizer
        for optimizer in optimizers
        for group in optimizer.param_groups
        for parameter in group["params"]
    }
    for name, (shape, dtype) in shapes.items():
        part, _, of = name.partition("/")
        if name.startswith(WEIGHTS):
            continue
        parameter = parameters[of]
        if shape == parameter.shape:
            value = torch.zeros_like(parameter, dtype=dtype)
        else:  # PyTorch's optimizers count steps on the CPU
            value = torch.zeros(shape, dtype=dtype, device=parameter.device if shape else "cpu")
        optimizer_of[parameter].state[parameter][part] = value


def split_state(optimizer: Optimizer, states: Mapping[int, Mapping[str, Any]]) -> None:
    """Gives the optimizer of a sharded model a state, arrays by part by number of the parameter."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    for number, state in states.items():
        parameter = parameters[number]
        for part, array in state.items():
            value = torch.from_numpy(np.array(array))
            whole = value.shape == parameter.shape
            optimizer.state[parameter][part] = split_like(value, parameter) if whole else value


def save_shards(tensors: Mapping[str, Tensor], folder: Path) -> None:
    """Writes all shares; the processes that hold the shares call this together."""
    from torch.distributed.checkpoint.state_dict_saver import save

    with _quiet():
        save(dict(tensors), checkpoint_id=folder)


def load_shards(tensors: Mapping[str, Tensor], folder: Path) -> None:
    """Fills tensors in; each process reads its present shares."""
    from torch.distributed.checkpoint.state_dict_loader import load

    with _quiet():
        load(dict(tensors), checkpoint_id=folder)


def shapes_in(folder: Path) -> Shapes:
    """Shapes of the tensors in a folder of shards."""
    from torch.distributed.checkpoint.filesystem import FileSystemReader

    entries: Mapping[str, Any] = FileSystemReader(folder).read_metadata().state_dict_metadata
    return {name: (entry.size, entry.properties.dtype) for name, entry in entries.items()}


def read_weights(folder: Path) -> dict[str, Tensor]:
    """The trained weights in a folder of shards, joined, by their names in the model."""
    from torch.distributed.checkpoint.state_dict_loader import load

    weights = {
        name: torch.empty(shape, dtype=dtype)
        for name, (shape, dtype) in shapes_in(folder).items()
        if name.startswith(WEIGHTS)
    }
    with _quiet():
        load(weights, checkpoint_id=folder, no_dist=True)
    return {name.removeprefix(WEIGHTS): tensor for name, tensor in weights.items()}


@contextmanager
def _quiet() -> Iterator[None]:
    """Hides PyTorch's warning about saving or loading in a single process."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield
