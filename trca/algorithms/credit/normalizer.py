"""Settings that rules of the form A^E + omega A^S share."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import Field

from trca.common.names import unknown

Normalizer = Literal["std", "one"]

NormalizerSetting = Annotated[
    Normalizer, Field(description="Divide advantages by the standard deviation, or by one.")
]
OmegaSetting = Annotated[float, Field(ge=0.0, description="Weight omega of the step advantage.")]


def divides(normalizer: Normalizer) -> bool:
    """Whether advantages are divided by the standard deviation.

    Raises:
        ValueError: For an unknown normalizer.
    """
    if normalizer not in get_args(Normalizer):
        raise unknown("normalizer", normalizer, get_args(Normalizer))
    return normalizer == "std"
