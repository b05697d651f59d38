"""Memory of an engine: what each engine holds at least, for the plan of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


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
