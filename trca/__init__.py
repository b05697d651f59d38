"""TRCA: transition-wise rubric credit assignment for LLM agents, on Ray RLlib.

``import trca`` is light: the first use of an algorithm or a config imports `trca.algorithms`.

    from trca import TRCAConfig
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trca.algorithms import *  # noqa: F403

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Imports an algorithm or a config on first use."""
    if name[:1].isupper() and name in _classes():  # names of submodules are in lower case
        from trca import algorithms

        return getattr(algorithms, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """The names of the module, with those of the installed algorithms and configs."""
    from trca.common.extras import missing_training

    return sorted({*globals(), *(() if missing_training() else _classes())})


def _classes() -> set[str]:
    from trca.algorithms import ALGORITHMS

    return {each.__name__ for a in ALGORITHMS.values() for each in (a, a.config_class)}
