"""Where the model of a name lies: the embedded tiny policy, folders, Hugging Face names."""

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
    """Where the model of a name lies.

    Args:
        name: ``tiny`` for the embedded policy, built for this environment on first use, then kept;
            ``shrunk:`` and the name of a known model for a small random one of its architecture,
            for dry runs; else a folder or a Hugging Face name, which stays as it is.
        env_id: The environment that the tiny policy is to speak, as `trca.envs.make` takes it.
        env_config: Keyword arguments of that environment.
        response_format: The response format that the tiny policy is to speak.

    Returns:
        What `load_model` and `load_tokenizer` take.

    Raises:
        ValueError: When the name looks like a folder that is not there, or a shrunk architecture
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
