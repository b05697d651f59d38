"""Supported precisions of models."""

from __future__ import annotations

from typing import Final, NamedTuple

AUTO: Final = "auto"
"""The precision of the saved model; see `trca.policies.models.resolve_dtype`."""


class Precision(NamedTuple):
    """Size and numerical tolerances of a precision."""

    bytes: int
    """Bytes per weight."""
    mismatch: float
    """Largest ``mismatch_kl`` of sampler and trainer before the first update."""
    push: float
    """Largest mean difference of a canary's log-probabilities; see `trca.policies.canary`."""


DTYPES: Final = {"float32": Precision(4, 1e-5, 1e-4), "bfloat16": Precision(2, 0.02, 0.3)}
"""Precision by its name in PyTorch."""


def check_dtype(name: str) -> str:
    """Returns the name of a precision, or ``auto``; a `ValueError` for an unknown name."""
    if name != AUTO and name not in DTYPES:
        raise ValueError(f"unknown dtype {name!r}: choose from {AUTO}, {', '.join(DTYPES)}")
    return name
