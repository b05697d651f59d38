"""TRCA: transition-wise rubric credit assignment for LLM agents, on Ray RLlib.

``import trca`` is light: an algorithm or a config of it is imported when it is first asked for.

    from trca import TRCAConfig
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trca.algorithms import (
        G2PO,
        GAGPO,
        GRPO,
        HGPO,
        RLOO,
        TRCA,
        DrGRPO,
        DrGRPOConfig,
        G2POConfig,
        GAGPOConfig,
        GiGPO,
        GiGPOConfig,
        GraphGPO,
        GraphGPOConfig,
        GRPOConfig,
        HGPOConfig,
        ReinforcePlusPlus,
        ReinforcePlusPlusConfig,
        RewardFlow,
        RewardFlowConfig,
        RLOOConfig,
        TRCAConfig,
    )

__version__ = "0.1.0"
__all__ = [
    "G2PO",
    "GAGPO",
    "GRPO",
    "HGPO",
    "RLOO",
    "TRCA",
    "DrGRPO",
    "DrGRPOConfig",
    "G2POConfig",
    "GAGPOConfig",
    "GRPOConfig",
    "GiGPO",
    "GiGPOConfig",
    "GraphGPO",
    "GraphGPOConfig",
    "HGPOConfig",
    "RLOOConfig",
    "ReinforcePlusPlus",
    "ReinforcePlusPlusConfig",
    "RewardFlow",
    "RewardFlowConfig",
    "TRCAConfig",
    "__version__",
]


def __getattr__(name: str) -> Any:
    """Imports an algorithm or a config on first use."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from trca import algorithms

    return getattr(algorithms, name)


def __dir__() -> list[str]:
    """The names of the module, the lazy ones included."""
    return sorted({*globals(), *__all__})
