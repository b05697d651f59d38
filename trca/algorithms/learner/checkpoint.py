"""What training has changed so far: weights and AdamW's moments, as tensors by name.

The tensors are the learner's own, whole or a share (`trca.policies.sharding`). So one structure
serves the copy that outlives a lost learner, and checkpoints that several learners write together,
each its shares, and any number of learners read.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from trca.policies.sharding import own_share, split_like

WEIGHTS: Final = "weights/"
_MOMENTS: Final = ("exp_avg", "exp_avg_sq")


def training_tensors(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The trained weights, and the optimizer's state where it has one.

    Args:
        model: The model.
        optimizer: AdamW over its trained parameters.
    """
    tensors = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            tensors[WEIGHTS + name] = parameter.detach()
            for part, moment in optimizer.state.get(parameter, {}).items():
                tensors[f"{part}/{name}"] = moment
    return tensors


def make_moments(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Gives the optimizer the state of one that has made no step, to be filled in."""
    for parameter in model.parameters():
        if parameter.requires_grad:
            optimizer.state[parameter] = {
                "step": torch.tensor(0.0),
                **{part: torch.zeros_like(parameter) for part in _MOMENTS},
            }


def copies(tensors: Mapping[str, Tensor]) -> dict[str, NDArray[Any]]:
    """Copies of this process's shares."""
    return {name: own_share(t).detach().cpu().numpy().copy() for name, t in tensors.items()}


def fill(tensors: Mapping[str, Tensor], values: Mapping[str, NDArray[Any]]) -> None:
    """Writes `copies` back."""
    with torch.no_grad():
        for name, tensor in tensors.items():
            own_share(tensor).copy_(torch.from_numpy(np.array(values[name])))


def split_moments(optimizer: torch.optim.Optimizer, states: Mapping[int, Any]) -> None:
    """Gives the optimizer of a sharded model the state of a whole one.

    Args:
        optimizer: The optimizer.
        states: State of each parameter, arrays by its number.
    """
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    for number, state in states.items():
        parameter = parameters[number]
        optimizer.state[parameter] = {
            "step": torch.tensor(float(state["step"])),
            **{
                part: split_like(torch.from_numpy(np.array(state[part])), parameter)
                for part in _MOMENTS
            },
        }


def save_shards(tensors: Mapping[str, Tensor], folder: Path) -> None:
    """Writes all shares; the processes that have them call this together."""
    from torch.distributed.checkpoint.state_dict_saver import save

    with _quiet():
        save(dict(tensors), checkpoint_id=folder)


def load_shards(tensors: Mapping[str, Tensor], folder: Path) -> None:
    """Fills tensors in, each process the shares that it has now."""
    from torch.distributed.checkpoint.state_dict_loader import load

    with _quiet():
        load(dict(tensors), checkpoint_id=folder)


def has_moments(folder: Path) -> bool:
    """Whether the shards are of a run that has made an update."""
    return any(name.startswith(_MOMENTS) for name in _metadata(folder))


def read_weights(folder: Path) -> dict[str, Tensor]:
    """The trained weights in a folder of shards, whole, by their names in the model."""
    from torch.distributed.checkpoint.state_dict_loader import load

    found = {
        name: torch.empty(about.size, dtype=about.properties.dtype)
        for name, about in _metadata(folder).items()
        if name.startswith(WEIGHTS)
    }
    with _quiet():
        load(found, checkpoint_id=folder, no_dist=True)
    return {name.removeprefix(WEIGHTS): tensor for name, tensor in found.items()}


def _metadata(folder: Path) -> dict[str, Any]:
    from torch.distributed.checkpoint.filesystem import FileSystemReader

    return dict(FileSystemReader(folder).read_metadata().state_dict_metadata)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without PyTorch's remark that one process alone saves or loads."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield
