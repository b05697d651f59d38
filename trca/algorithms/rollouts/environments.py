"""What RLlib makes environments by."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import gymnasium

from trca.envs import registration
from trca.envs.registration import EnvClass, creator, lacks_rubric

EnvCreator = Callable[[Mapping[str, Any]], gymnasium.Env[str, str]]


def env_creator(env: EnvClass) -> EnvCreator:
    """The function that makes an environment of its ``env_config``, in any process.

    Args:
        env: An environment registered with Ray Tune, or one as `trca.envs.make` takes it.

    Raises:
        ValueError: For an unknown name.
    """
    if _is_rays(env):
        from ray.tune.registry import ENV_CREATOR, _global_registry

        creator_of_ray: EnvCreator = _global_registry.get(ENV_CREATOR, env)
        return creator_of_ray
    return partial(_make, creator(env))


def default_split(env: EnvClass, env_config: Mapping[str, Any]) -> str:
    """The split that is evaluated where none is named."""
    if not _is_rays(env):
        return registration.default_split(env)
    made = env_creator(env)(env_config)
    try:
        return str(made.get_wrapper_attr("default_split"))
    finally:
        made.close()


def no_rubric(algorithm: str, env: EnvClass, env_config: Mapping[str, Any]) -> str:
    """One sentence on why an algorithm that learns from judgments cannot train here; else blank."""
    why = f"nothing judges {env}" if _is_rays(env) else lacks_rubric(env, env_config.get("library"))
    hint = "add one (docs/environments.md) or train with GRPO or GiGPO"
    return why and f"{algorithm} learns from rubric judgments, and {why}: {hint}"


def _is_rays(env: EnvClass) -> bool:
    """Whether the environment is registered with Ray; a process without Ray has no such one."""
    if not isinstance(env, str) or "ray.tune.registry" not in sys.modules:
        return False
    from ray.tune.registry import ENV_CREATOR, _global_registry

    return bool(_global_registry.contains(ENV_CREATOR, env))


def _make(
    maker: Callable[..., gymnasium.Env[str, str]], env_config: Mapping[str, Any]
) -> gymnasium.Env[str, str]:
    return maker(**env_config)
