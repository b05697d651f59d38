"""Checks of numeric arguments."""

from __future__ import annotations


def check_share(name: str, value: float) -> None:
    """Checks a number from 0 to 1, such as a discount.

    Args:
        name: Name of the number, for the error message.
        value: The number.

    Raises:
        ValueError: If the number is outside [0, 1].
    """
    if not isinstance(value, int | float) or not 0.0 <= value <= 1.0:
        raise ValueError(f"{name} is {value!r}: give a number from 0 to 1")
