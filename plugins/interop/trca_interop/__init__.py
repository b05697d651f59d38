"""Adapters between TRCA and TRL, OpenEnv, verifiers, verl and SkyRL.

See docs/interop.md and docs/interop_credit.md. Each module imports its library; this package
imports no library.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from trca.common.extras import install


def required(module: str, extra: str) -> Any:
    """Imports a module of an extra of this package.

    Args:
        module: The module.
        extra: The extra with the module.

    Raises:
        ImportError: If the module cannot be imported. The message names the extra.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(f"{error}: {install(extra, './plugins/interop')}") from error
