"""Creators of environments for RLlib."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import partial
from typing import Any

import gymnasium

from trca.algorithms.settings import parameters
from trca.envs import registration
from trca.envs.registration import EnvClass, creator, lacks_rubric

EnvCreator = Callable[[Mapping[str, Any]], gymnasium.Env[str, str]]


def env_creator(env: EnvClass) -> EnvCreator:
    """Returns the function that makes an environment from its ``env_config``, in any process.

    The environment is registered with Ray Tune, or an argument of `trca.envs.make`.
    """
    return _registered(env) or partial(_make, creator(env))


def default_split(env: EnvClass, env_config: Mapping[str, Any]) -> str:
    """The split of evaluations without a named split."""
    if (create := _registered(env)) is None:
        return registration.default_split(env)
    with closing(create(env_config)) as made:
        return str(made.get_wrapper_attr("default_split"))


def no_rubric(algorithm: str, env: EnvClass, env_config: Mapping[str, Any]) -> str:
    """Why an algorithm that learns from judgments cannot train here; empty if it can."""
    why = f"nothing judges {env}"
    if _registered(env) is None:
        why = lacks_rubric(env, env_config.get("library"))
    return parameters.no_rubric(algorithm, why)


def _registered(env: EnvClass) -> EnvCreator | None:
    """The creator that is registered with Ray Tune; None without one or without Ray."""
    if not isinstance(env, str) or "ray.tune.registry" not in sys.modules:
        return None
    from ray.tune.registry import ENV_CREATOR, _global_registry

    known = _global_registry.contains(ENV_CREATOR, env)
    return _global_registry.get(ENV_CREATOR, env) if known else None


def _make(
    maker: Callable[..., gymnasium.Env[str, str]], env_config: Mapping[str, Any]
) -> gymnasium.Env[str, str]:
    return maker(**env_config)
