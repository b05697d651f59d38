"""Optimizers by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from trca.common.registry import Registry

OPTIMIZERS: Final[Registry[Callable[..., Any]]] = Registry(
    "optimizer",
    {
        "adamw": "trca.algorithms.learner.optimizers.adamw:make_adamw",
        "muon": "trca.algorithms.learner.optimizers.muon:make_muon",
    },
)
"""Optimizers by name, each an `OptimizerFactory`; ``path/to/file.py:NAME`` names a user's own."""
