"""Transfers weights between learner, engine and disk, by name, each tied weight once.

For a model with an adapter (`trca.policies.lora`), only the adapter's weights are transferred.
Weights that are split over processes (`trca.policies.sharding`) are gathered one tensor at a time:
all processes call `export_weights`, and process 0 gets the arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from trca.policies.lora import ADAPTER, has_lora, lora_tensors
from trca.policies.sharding import gathered, split_like

State = dict[str, Any]


def export_weights(
    model: nn.Module, dtype: torch.dtype | None = None, adapter: str = ADAPTER
) -> State:
    """Returns the parameters and persistent buffers of a model as arrays, each tied tensor once.

    NumPy has no bfloat16: a bfloat16 tensor becomes the uint16 array of its bits. The arrays are
    copies: later updates of the model do not change them. Tensors are converted to ``dtype`` one by
    one, so that no second full copy of the model exists.
    """
    state = {}
    for name, tensor in named_tensors(model, adapter).items():
        local = tensor.detach()
        if dtype is not None and local.dtype.is_floating_point:
            local = local.to(dtype)  # before it is gathered: fewer bytes travel
        array = gathered(local)
        if isinstance(local, DTensor) and torch.distributed.get_rank() > 0:
            continue
        array = array.cpu().contiguous()
        shard = tensor.to_local() if isinstance(tensor, DTensor) else tensor
        if array.data_ptr() == shard.data_ptr():  # nothing has copied it yet
            array = array.clone()
        if array.dtype == torch.bfloat16:
            state[name] = array.view(torch.int16).numpy().view(np.uint16)
        else:
            state[name] = array.numpy()
    return state


def import_weights(model: nn.Module, state: Mapping[str, Any], adapter: str = ADAPTER) -> None:
    """Copies weights into a model in place: arrays of `export_weights`, or tensors of a state dict.

    Raises:
        ValueError: If names or shapes differ from the model's. The model is then unchanged.
    """
    tensors = named_tensors(model, adapter)
    allowed = tensors if has_lora(model) else model.state_dict(keep_vars=True)
    check_weights(tensors, state, allowed)
    with torch.no_grad():
        for name, tensor in tensors.items():
            tensor.copy_(split_like(to_tensor(state[name]), tensor))


def check_weights(
    expected: Mapping[str, Tensor],
    state: Mapping[str, Any],
    allowed: Mapping[str, Any] | None = None,
) -> None:
    """Raises a `ValueError` if names or shapes of weights differ from the `named_tensors` expected.

    Weights may have the ``allowed`` names, by default the expected ones.
    """
    missing = [name for name in expected if name not in state]
    unknown = [name for name in state if name not in (allowed or expected)]
    if missing or unknown:
        raise ValueError(
            f"the weights do not fit the model: missing {_some(missing)}; unknown {_some(unknown)}"
        )
    wrong = [
        f"{name} {tuple(state[name].shape)} for {tuple(tensor.shape)}"
        for name, tensor in expected.items()
        if tuple(state[name].shape) != tuple(tensor.shape)
    ]
    if wrong:
        raise ValueError(f"the weights do not fit the model: wrong shapes {_some(wrong)}")


def named_tensors(model: nn.Module, adapter: str = ADAPTER) -> dict[str, Tensor]:
    """Returns the parameters and persistent buffers to transfer, each tied tensor once."""
    seen: set[int] = set()
    named: dict[str, Tensor] = {}
    state = model.state_dict(keep_vars=True)
    for name, tensor in (lora_tensors(state, adapter) if has_lora(model) else state).items():
        if id(tensor) not in seen:
            seen.add(id(tensor))
            named[name] = tensor
    return named


def to_tensor(value: Any) -> Tensor:
    """Converts an array of `export_weights` to a tensor; returns a tensor unchanged."""
    if isinstance(value, Tensor):
        return value
    array = np.asarray(value)
    if array.dtype == np.uint16:
        return torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(array if array.flags.writeable else array.copy())


def _some(names: list[str]) -> str:
    if not names:
        return "none"
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more
