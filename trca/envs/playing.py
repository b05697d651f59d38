"""Plays an episode with a player, such as the oracle or a random agent.

::

    observation, info = env.reset(seed=0)
    for step in play(env, info, lambda info: env.unwrapped.oracle_action()):
        print(step.action, step.observation)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import gymnasium

Player = Callable[[Mapping[str, Any]], str]
"""Chooses the next action from the last ``info``."""


class PlayedStep(NamedTuple):
    """A step of an episode.

    Attributes:
        action: The action.
        observation: The observation after the action.
        reward: The reward of the environment.
        info: The ``info`` after the action.
        is_last: Whether the episode ends with this step.
    """

    action: str
    observation: str
    reward: float
    info: dict[str, Any]
    is_last: bool


def play(
    env: gymnasium.Env[str, str],
    info: Mapping[str, Any],
    player: Callable[[Mapping[str, Any]], str | None],
) -> Iterator[PlayedStep]:
    """Plays a started episode to its end, or until the player returns None.

    Args:
        env: The environment, after ``reset``.
        info: The ``info`` of ``reset``.
        player: Chooses the actions.
    """
    is_last = False
    while not is_last and (action := player(info)) is not None:
        observation, reward, terminated, truncated, info = env.step(action)
        is_last = bool(terminated or truncated)
        yield PlayedStep(action, observation, float(reward), info, is_last)
