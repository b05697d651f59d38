"""Generation engines by name.

::

    engine = engine_class("transformers").open(EngineSpec(model))

A new engine is a subclass of `trca.policies.engines.engine.Engine` in its own file, and one line of
`ENGINES` or the setting ``engine: path/to/file.py:Class``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trca.common.registry import Registry

if TYPE_CHECKING:
    from trca.policies.engines.engine import Engine

ENGINES: Final[Registry[type[Engine]]] = Registry(
    "engine",
    {
        "openai": "trca.policies.engines.endpoint:EndpointEngine",
        "transformers": "trca.policies.engines.transformers:TransformersEngine",
        "vllm": "trca.policies.engines.vllm:VLLMEngine",
    },
)
"""Classes of engines by name."""


def engine_class(name: str) -> type[Engine]:
    """Returns the class of an engine, which states needs and features of the engine.

    Args:
        name: A registered name or ``path/to/file.py:Class``.

    Raises:
        ValueError: For an unknown name, or an object that is not a subclass of `Engine`.
    """
    from trca.policies.engines.engine import Engine

    entry: object = ENGINES.get(name)
    if not (isinstance(entry, type) and issubclass(entry, Engine)):
        raise ValueError(
            f"engine {name!r} is not a subclass of trca.policies.engines.engine.Engine: name such a"
            " class"
        )
    return entry
