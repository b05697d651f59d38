"""The interface of an environment, for the prompt that asks a model for a rubric library."""

from __future__ import annotations

import inspect
import re
from typing import Any, Final

from trca.envs.check import random_player
from trca.envs.registration import EnvClass, canonical, env_class, make_unjudged
from trca.rubric import RubricError
from trca.rubric.generation import Interface

_ACTIONS: Final = 40
"""Number of random actions."""
_ANSWERS: Final = 8
"""Largest number of actions in the prompt."""


def interface(env: EnvClass, **arguments: Any) -> Interface:
    """The interface of an environment: docstring, facts, binding, first state, transitions.

    The transitions answer random actions, some of them nonsense. Transitions that end the episode
    are left out, so that the interface reveals neither success nor failure.

    Args:
        env: An environment with an ``adapter_class``.
        arguments: Arguments of the environment.

    Raises:
        RubricError: If the environment has no adapter and therefore no facts.
    """
    declared = env_class(env)
    adapter_class = getattr(declared, "adapter_class", None)
    if adapter_class is None:
        raise RubricError(f"{env} declares no adapter_class: a rubric library needs its facts")
    wrapped: Any = make_unjudged(env, **{"split": "train", **arguments})
    try:
        inner = wrapped.unwrapped
        observation, info = wrapped.reset(options={"task": inner.task_ids[0]})
        return Interface(
            environment=inner.env_id or _written(env),
            description=_summary(declared),
            instruction=info["task"],
            observation=observation,
            admissible=info["admissible_actions"],
            answers=_answers(wrapped, info),
            facts_type=adapter_class.facts_type,
            binding_type=adapter_class.binding_type,
        )
    finally:
        wrapped.close()


def _answers(env: Any, info: dict[str, Any]) -> list[tuple[str, str]]:
    task_id, act = info["task_id"], random_player(env.unwrapped, "interface")
    answers: dict[str, str] = {}
    for _ in range(_ACTIONS):
        action = act(info)
        observation, _, terminated, truncated, info = env.step(action)
        if terminated or truncated:
            _, info = env.reset(options={"task": task_id})
        else:
            answers.setdefault(action, observation)
    return list(answers.items())[:_ANSWERS]


def _summary(env: Any) -> str:
    """The docstring of a class without its sections of arguments and attributes."""
    text = inspect.cleandoc(env.__doc__ or "")
    return re.split(r"\n\n(?:Args|Attributes|Example|Raises):", text)[0]


def _written(env: EnvClass) -> str:
    name = canonical(env) if isinstance(env, str) else env.__name__
    return name.rpartition(":")[2]
