"""Creators of environments for RLlib."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import gymnasium

from trca.algorithms.settings import parameters
from trca.envs import registration
from trca.envs.registration import EnvClass, creator, lacks_rubric

EnvCreator = Callable[[Mapping[str, Any]], gymnasium.Env[str, str]]


def env_creator(env: EnvClass) -> EnvCreator:
    """Returns the function that makes an environment from its ``env_config``, in any process.

    Args:
        env: An environment registered with Ray Tune, or an argument of `trca.envs.make`.

    Raises:
        ValueError: For an unknown name.
    """
    if _is_rays(env):
        from ray.tune.registry import ENV_CREATOR, _global_registry

        registered: EnvCreator = _global_registry.get(ENV_CREATOR, env)
        return registered
    return partial(_make, creator(env))


def default_split(env: EnvClass, env_config: Mapping[str, Any]) -> str:
    """The split of evaluations without a named split."""
    if not _is_rays(env):
        return registration.default_split(env)
    made = env_creator(env)(env_config)
    try:
        return str(made.get_wrapper_attr("default_split"))
    finally:
        made.close()


def no_rubric(algorithm: str, env: EnvClass, env_config: Mapping[str, Any]) -> str:
    """Why an algorithm that learns from judgments cannot train here; blank if it can."""
    why = f"nothing judges {env}" if _is_rays(env) else lacks_rubric(env, env_config.get("library"))
    return parameters.no_rubric(algorithm, why)


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
