"""Resolves model names: the embedded tiny policy, folders, Hugging Face names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trca.policies.models import SHRUNK, TINY


def resolve_model(
    name: str,
    *,
    env_id: str | type,
    env_config: Mapping[str, Any] | None = None,
    response_format: str = "action",
) -> str:
    """Resolves the name of a model.

    Args:
        name: ``tiny`` for the embedded policy of the environment, built on first use;
            ``shrunk:NAME`` for a small random model of a known architecture, for dry runs;
            otherwise a folder or a Hugging Face name, returned unchanged.
        env_id: Environment of the tiny policy, as for `trca.envs.make`.
        env_config: Keyword arguments of the environment.
        response_format: Response format of the tiny policy.

    Returns:
        A folder or a Hugging Face name, for `load_model` and `load_tokenizer`.

    Raises:
        ValueError: If the name looks like a folder that does not exist, or a shrunk architecture
            is unknown.
    """
    if name == TINY:
        from trca.policies.tiny import tiny_policy

        return str(tiny_policy(env_id, env_config or {}, response_format=response_format))
    if name.startswith(SHRUNK):
        from trca.policies.shrunk import shrunk_model

        return str(shrunk_model(name.removeprefix(SHRUNK)))
    if Path(name).expanduser().is_dir():
        return str(Path(name).expanduser())
    if name.startswith(("/", ".", "~")) or name.count("/") > 1:
        raise ValueError(
            f"no model at {name!r}: give {TINY}, a folder with config.json, or a Hugging Face name"
            " such as Qwen/Qwen2.5-1.5B-Instruct"
        )
    return name
