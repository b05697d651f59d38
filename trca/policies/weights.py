"""Weights between learner, engine and disk: by name, tied ones once, checked on arrival.

Of a model with an adapter (`trca.policies.lora`) the adapter's weights alone travel. Weights that
are split over processes (`trca.policies.sharding`) are gathered one tensor at a time: all processes
call `export_weights` together, and the first of them gets the arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from trca.policies.lora import ADAPTER, has_lora, lora_tensors
from trca.policies.sharding import gathered, own_share, split_like

State = dict[str, Any]


def export_weights(
    model: nn.Module, dtype: torch.dtype | None = None, adapter: str = ADAPTER
) -> State:
    """The parameters and persistent buffers of a model as arrays, each tied tensor once.

    NumPy has no bfloat16: such a tensor becomes the uint16 array of its bits. The arrays are
    copies, so later updates of the model do not reach them.

    Args:
        model: The model.
        dtype: Precision of the floating-point arrays; the model's own for None. Tensors are
            converted one by one, so no second copy of the model is ever whole.
        adapter: Which adapter's weights, where the model has adapters.
    """
    state = {}
    for name, tensor in named_tensors(model, adapter).items():
        own = tensor.detach()
        if dtype is not None and own.dtype.is_floating_point:
            own = own.to(dtype)  # before it is gathered: fewer bytes travel
        together = gathered(own)
        if not isinstance(own, DTensor) or torch.distributed.get_rank() == 0:
            state[name] = _to_array(together, tensor)
    return state


def import_weights(model: nn.Module, state: Mapping[str, Any], adapter: str = ADAPTER) -> None:
    """Copies weights into a model in place.

    Args:
        model: The model.
        state: Arrays of `export_weights`, or tensors by the names of the model's ``state_dict``.
        adapter: Which adapter takes them, where the model has adapters.

    Raises:
        ValueError: When names or shapes are not those of the model; nothing is changed then.
    """
    own = named_tensors(model, adapter)
    whole = own if has_lora(model) else model.state_dict(keep_vars=True)
    check_weights(own, state, whole)
    with torch.no_grad():
        for name, tensor in own.items():
            tensor.copy_(split_like(to_tensor(state[name]), tensor))


def check_weights(
    own: Mapping[str, Tensor], state: Mapping[str, Any], known: Mapping[str, Any] | None = None
) -> None:
    """Compares weights with what a model expects.

    Args:
        own: The tensors that are expected, by name; see `named_tensors`.
        state: The weights.
        known: Names that may come as well; none for None.

    Raises:
        ValueError: When names or shapes differ.
    """
    missing = [name for name in own if name not in state]
    unknown = [name for name in state if name not in (known or own)]
    if missing or unknown:
        raise ValueError(
            f"the weights do not fit the model: missing {_some(missing)}; unknown {_some(unknown)}"
        )
    wrong = [
        f"{name} {tuple(state[name].shape)} for {tuple(tensor.shape)}"
        for name, tensor in own.items()
        if tuple(state[name].shape) != tuple(tensor.shape)
    ]
    if wrong:
        raise ValueError(f"the weights do not fit the model: wrong shapes {_some(wrong)}")


def named_tensors(model: nn.Module, adapter: str = ADAPTER) -> dict[str, Tensor]:
    """The parameters and persistent buffers that travel, each tied one once."""
    seen: set[int] = set()
    named: dict[str, Tensor] = {}
    whole = model.state_dict(keep_vars=True)
    for name, tensor in (lora_tensors(whole, adapter) if has_lora(model) else whole).items():
        if id(tensor) not in seen:
            seen.add(id(tensor))
            named[name] = tensor
    return named


def _to_array(tensor: Tensor, model_tensor: Tensor) -> np.ndarray[Any, Any]:
    """An array of its own memory: a conversion, a gathering or a transfer copies already."""
    own = tensor.cpu().contiguous()
    if own.data_ptr() == own_share(model_tensor).data_ptr():
        own = own.clone()
    if own.dtype == torch.bfloat16:
        return own.view(torch.int16).numpy().view(np.uint16)
    return np.asarray(own.numpy())


def to_tensor(value: Any) -> Tensor:
    """A tensor of an array of `export_weights`, or the tensor itself."""
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
