"""Imports of libraries that only their own adapter needs."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def required(module: str, extra: str) -> Any:
    """Imports a library.

    Args:
        module: The module to import.
        extra: The extra of this package that brings it.

    Raises:
        ImportError: Says which extra to install.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(
            f"trca.interop.{extra} needs {module} ({error}): pip install 'trca[{extra}]'"
        ) from error
