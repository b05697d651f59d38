"""Credit rules by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from trca.common.registry import Registry

CREDIT_RULES: Final[Registry[Callable[..., Any]]] = Registry("credit rule")
"""Credit rules by name; ``@CREDIT_RULES.register("mine")`` adds one."""
