"""What a model is told of an environment that it writes a rubric library for."""

from __future__ import annotations

import inspect
import re
from typing import Any, Final

from trca.envs.check import random_player
from trca.envs.registration import EnvClass, env_class, make
from trca.rubric import RubricError
from trca.rubric.generation import Interface

_ACTIONS: Final = 40
"""Actions that are drawn."""
_ANSWERS: Final = 8
"""Actions at most whose answers are shown."""


def interface(env: EnvClass, **arguments: Any) -> Interface:
    """The interface of an environment: its docstring, its facts and binding, and a first state.

    The answers are those to actions drawn at random, some of them nonsense. An answer that ends the
    episode is left out: the form is shown, and neither success nor failure.

    Args:
        env: The environment; it declares an ``adapter_class``.
        arguments: What its class takes.

    Raises:
        RubricError: When it has no adapter, hence no facts.
    """
    found = env_class(env)
    adapter_class = getattr(found, "adapter_class", None)
    if adapter_class is None:
        raise RubricError(f"{env} declares no adapter_class: a library reads its facts")
    made: Any = make(env, **{"split": "train", **arguments})
    inner = made.unwrapped
    observation, info = made.reset(options={"task": inner.task_ids[0]})
    shown = Interface(
        environment=inner.env_id or _written(env),
        description=_summary(found),
        instruction=info["task"],
        observation=observation,
        admissible=info["admissible_actions"],
        answers=_answers(made, info),
        facts_type=adapter_class.facts_type,
        binding_type=adapter_class.binding_type,
    )
    made.close()
    return shown


def _answers(env: Any, info: dict[str, Any]) -> list[tuple[str, str]]:
    task, act = info["task_id"], random_player(env.unwrapped, "interface")
    answers: dict[str, str] = {}
    for _ in range(_ACTIONS):
        action = act(info)
        observation, _, terminated, truncated, info = env.step(action)
        if terminated or truncated:
            _, info = env.reset(options={"task": task})
        else:
            answers.setdefault(action, observation)
    return list(answers.items())[:_ANSWERS]


def _summary(env: Any) -> str:
    """The docstring of a class without its sections of arguments and attributes."""
    text = inspect.cleandoc(env.__doc__ or "")
    return re.split(r"\n\n(?:Args|Attributes|Example|Raises):", text)[0]


def _written(env: EnvClass) -> str:
    name = env if isinstance(env, str) else env.__name__
    return name.rpartition(":")[2]
