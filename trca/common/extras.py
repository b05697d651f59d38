"""What ``pip install trca`` leaves to its extras, and how to get it."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

_TRAINING: Final = ("ray", "torch", "transformers")


def missing_training() -> str:
    """What to install for training, in one line; blank when it is there."""
    missing = [name for name in _TRAINING if find_spec(name) is None]
    if not missing:
        return ""
    return f"training needs {', '.join(missing)}: pip install 'trca[train]'"


def missing_recorder() -> str:
    """What to install to record episodes for RLlib's offline API; blank when it is there."""
    if find_spec("msgpack_numpy"):
        return ""
    return "recording episodes needs msgpack-numpy: pip install 'trca[offline]'"


def missing_extra(package: str, user: str, extra: str) -> str:
    """What to install for something that needs a package, in one line; blank when it is there.

    Args:
        package: The package, as it is imported.
        user: What needs it.
        extra: The extra that brings it.
    """
    if find_spec(package) is not None:
        return ""
    return f"{user} needs {package}: pip install 'trca[{extra}]'"


def required(module: str, extra: str) -> Any:
    """Imports a library that one part of this package is for.

    Args:
        module: The module to import.
        extra: The extra that brings it.

    Raises:
        ImportError: Says which extra to install.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(f"{error}: pip install 'trca[{extra}]'") from error
