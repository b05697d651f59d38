"""Algorithms for language models in text environments; importing this registers them with Ray Tune.

::

    import trca.algorithms
    from ray import tune

    tune.Tuner("TRCA", param_space={"env": "trca/ALFWorld-v0", "lr": 4e-4}).fit()

The commands postpone the import of Ray and PyTorch to the first use of an algorithm
(`trca.common.extras`): they check the words of a user first.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from trca.common import extras

if TYPE_CHECKING:
    from trca.algorithms.catalog import *  # noqa: F403

_FUNCTIONS: Final = ("evaluate_panel", "export", "local_runner")


def __getattr__(name: str) -> Any:
    """Imports all algorithms at the first use of one, or of a function that needs them."""
    if name[:1].isupper() or name in _FUNCTIONS:  # rooms are in lower case
        return getattr(import_module(f"{__name__}.catalog"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


if not extras.postponed:
    import_module(f"{__name__}.catalog")
