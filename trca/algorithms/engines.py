"""Generation engines by name."""

from __future__ import annotations

from typing import Any

from trca.policies.engines.engine import Engine

ENGINES = ("transformers",)


def make_engine(name: str, module: Any, tokenizer: Any) -> Engine:
    """The engine of an env runner.

    Args:
        name: One of `ENGINES`.
        module: The language-model module, whose ``model`` is a Hugging Face causal LM.
        tokenizer: Its tokenizer.

    Raises:
        ValueError: For an unknown name.
    """
    if name == "transformers":
        from trca.policies.engines.transformers import TransformersEngine

        return TransformersEngine(module.model, tokenizer)
    raise ValueError(f"unknown engine {name!r}: choose from {', '.join(ENGINES)}")
