"""Memory of engines: the work of a runner, and the bytes that an engine needs for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple


@dataclass(frozen=True)
class EngineLoad:
    """The work of a runner, from which `Engine.memory` derives bytes.

    Attributes:
        policies: Number of policies, each with an engine.
        parameters: Number of weights of a model.
        adapter: Number of weights of an adapter; 0 without LoRA.
        weight_bytes: Bytes per weight.
        requests: Result of `Engine.parallel_requests`.
        cache_bytes: Bytes of keys and values of one request at its longest.
        vocabulary: Number of tokens.
        layer_bytes: Bytes of activations per token in one layer.
        gpu_bytes: Memory of a GPU; None on a CPU, or if unknown.
        options: The ``engine_config``.
    """

    policies: int
    parameters: int
    adapter: int
    weight_bytes: int
    requests: int
    cache_bytes: float
    vocabulary: int
    layer_bytes: float
    gpu_bytes: float | None
    options: Mapping[str, Any]


class EngineMemory(NamedTuple):
    """Bytes on one device, by purpose.

    Attributes:
        held: Bytes in use all the time: ``weights`` and ``KV cache``.
        computing: Further bytes during generation.
    """

    held: dict[str, float]
    computing: dict[str, float]
