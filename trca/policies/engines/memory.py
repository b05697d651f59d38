"""Memory of an engine: what each engine holds at least, for the plan of a run.

An engine of a user's file has the memory of a batched engine, unless the function that opens the
engine has an attribute ``memory``, a function from `EngineLoad` to `EngineMemory`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from trca.policies.engines import ENGINES

_MAX_BATCH_ROWS: Final = 512
_ROWS_MULTIPLE: Final = 8
_VLLM_SHARE: Final = 0.9


@dataclass(frozen=True)
class EngineLoad:
    """The models and rollouts of one env runner.

    Attributes:
        policies: Number of policies.
        weights: Bytes of the weights of one policy, without adapter.
        adapter: Bytes of the adapter of one policy; 0 without adapters.
        rollouts: Rollouts of the env runner.
        row: Bytes of keys and values of one rollout at the longest prompt and response.
        gpu: Bytes of a GPU; `None` on a CPU or for a GPU of unknown size.
        options: The engine's settings (`engine_config`).
    """

    policies: int
    weights: float
    adapter: float
    rollouts: int
    row: float
    gpu: float | None
    options: Mapping[str, Any]


@dataclass(frozen=True)
class EngineMemory:
    """The memory of one env runner's engines, on each of their devices.

    Attributes:
        weights: Bytes of weights.
        cache: Bytes of keys and values.
        rows: Rollouts that the engine takes at once.
        devices: Number of devices that share a model.
    """

    weights: float
    cache: float
    rows: int
    devices: int = 1

    def rollouts_at_once(self, row: float) -> int:
        """Rollouts whose keys and values fit at once, of ``row`` bytes each."""
        return min(self.rows, int(self.cache * self.devices / row))


def engine_memory(name: str, load: EngineLoad) -> EngineMemory:
    """The memory of an engine.

    Args:
        name: The engine's name, one of `ENGINES` or ``file.py:NAME``.
        load: The models and rollouts.
    """
    if name in _RULES:
        return _RULES[name](load)
    rule: Callable[[EngineLoad], EngineMemory] = getattr(ENGINES.get(name), "memory", _batched)
    return rule(load)


def _batched(load: EngineLoad) -> EngineMemory:
    """One batch of all rollouts. Adapters share the frozen weights."""
    most = int(load.options.get("max_batch_rows", _MAX_BATCH_ROWS))
    rows = min(-(-load.rollouts // _ROWS_MULTIPLE) * _ROWS_MULTIPLE, most)
    models = 1 if load.adapter else load.policies
    return EngineMemory(models * load.weights + load.policies * load.adapter, rows * load.row, rows)


def _vllm(load: EngineLoad) -> EngineMemory:
    """VLLM reserves a share of the GPU for each policy; each holds the frozen weights."""
    devices = int(load.options.get("tensor_parallel_size", 1))
    weights = load.policies * (load.weights + load.adapter) / devices
    cache = load.rollouts * load.row / devices
    if load.gpu is not None:
        share = float(load.options.get("gpu_memory_utilization", _VLLM_SHARE))
        cache = max(load.policies * share * load.gpu - weights, 0.0)
    return EngineMemory(weights, cache, load.rollouts, devices)


def _elsewhere(load: EngineLoad) -> EngineMemory:
    """The model of an endpoint takes no memory here."""
    return EngineMemory(0.0, load.rollouts * load.row, load.rollouts)


_RULES: Final[dict[str, Callable[[EngineLoad], EngineMemory]]] = {
    "openai": _elsewhere,
    "transformers": _batched,
    "vllm": _vllm,
}
