"""Generation engines by name.

An entry makes an engine where it runs: ``ENGINES.get(name)(EngineSpec(model))``.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from trca.common.chat_endpoint import missing_client
from trca.common.registry import Registry

if TYPE_CHECKING:
    from trca.policies.engines.engine import Engine, EngineSpec

ENGINES: Final[Registry[Callable[[EngineSpec], Engine]]] = Registry(
    "engine",
    {
        "openai": "trca.policies.engines.endpoint:open_engine",
        "transformers": "trca.policies.engines.transformers:open_engine",
        "vllm": "trca.policies.engines.vllm:open_engine",
    },
)
"""Engines by name; one of your own is ``path/to/file.py:NAME`` and is called with a spec."""


ENDPOINTS: Final = frozenset({"openai"})
"""Engines that ask a model elsewhere: ids are bytes of text, and weights cannot be set."""


def missing_engine(name: str) -> str:
    """What to do for an engine that this machine lacks; blank when it is there."""
    if name in ENDPOINTS:
        return missing_client()
    if name != "vllm" or find_spec("vllm"):
        return ""
    return "engine 'vllm' needs vLLM: pip install 'trca[vllm]'"
