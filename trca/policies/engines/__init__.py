"""Generation engines by name.

An entry makes an engine: ``ENGINES.get(name)(model, tokenizer)``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from trca.common.registry import Registry

if TYPE_CHECKING:
    from trca.policies.engines.engine import Engine

ENGINES: Final[Registry[Callable[..., Engine]]] = Registry(
    "engine", {"transformers": "trca.policies.engines.transformers:TransformersEngine"}
)
"""Engines by name; a class of your own is ``path/to/file.py:Class``."""
