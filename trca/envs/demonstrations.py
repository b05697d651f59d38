"""`Demonstrations`: the next action of an environment's demonstrator, in the info dict."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import gymnasium
import numpy as np

from trca.envs.responses import ResponseFormat, write_action
from trca.envs.text_env import UNPARSED

DEMONSTRATION: Final = "demonstration"
"""Key of the info dict."""
THOUGHT: Final = "ok"
"""The thought of a demonstrated response: a demonstrator gives no reasons."""


@dataclass(frozen=True, slots=True)
class Demonstration:
    """The action of a demonstrator in a state; a random action follows no new subgoal."""

    action: str
    subgoal: str = ""
    random: bool = False

    def respond(self, response_format: ResponseFormat, subgoal: str = "") -> tuple[str, str]:
        """The response that takes the action, and the agent's subgoal after the response.

        A random action keeps the ``subgoal`` before the response. Subgoals are empty without plans.
        """
        if response_format.write_plan is None:
            return (response_format.write or write_action)(THOUGHT, self.action), ""
        followed = subgoal if self.random and subgoal else self.subgoal
        return response_format.write_plan(followed != subgoal, followed, self.action), followed


class Demonstrations(gymnasium.Wrapper[str, str, str, str]):
    """Adds ``info["demonstration"]``, a `Demonstration` for the agent whose turn it is.

    The environment's demonstrator reads observations only, so the demonstration depends on the
    actions before it, whoever chose them. With some probability the demonstrator takes a random
    admissible action. The info dict of a final step has no demonstration.
    """

    def __init__(
        self,
        env: gymnasium.Env[str, str],
        randomness: float = 0.0,
        deliberate: Sequence[str] = (),
        plans: bool = False,
        draw: random.Random | None = None,
    ) -> None:
        """Wraps a text environment with a ``demonstrator_action``.

        ``randomness`` is the probability of a random action, and ``deliberate`` has beginnings of
        actions that are never random, such as ``buy``. ``plans`` adds subgoals. ``draw`` is the
        random stream until a reset with a seed.
        """
        super().__init__(env)
        self._randomness = randomness
        self._deliberate = tuple(deliberate)
        self._plans = plans
        self._draw = draw or random.Random()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Starts an episode. A seed determines the random actions too."""
        observation, info = self.env.reset(seed=seed, options=options)
        if seed is not None:
            self._draw = random.Random(seed)
        return observation, self._demonstrated(info)

    def step(self, action: str) -> tuple[str, Any, bool, bool, dict[str, Any]]:
        """Takes a step."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        if not (terminated or truncated):
            info = self._demonstrated(info)
        return observation, reward, terminated, truncated, info

    def _demonstrated(self, info: dict[str, Any]) -> dict[str, Any]:
        env: Any = self.env.unwrapped
        candidates = info["admissible_actions"]
        if "agent" in info and all(action.startswith(self._deliberate) for action in candidates):
            candidates = []  # a role of a team may have deliberate actions only
        has_random = bool(candidates) or "tools" in info  # tools are not listed as actions
        is_random = self._draw.random() < self._randomness and has_random
        action = (
            random_action(env, candidates, self._deliberate, self._draw)
            if is_random
            else env.demonstrator_action()
        )
        subgoal = env.demonstrator_subgoal() if self._plans else ""
        return {**info, DEMONSTRATION: Demonstration(action, subgoal, is_random)}


def random_action(
    env: Any, admissible: Sequence[str], deliberate: tuple[str, ...], draw: random.Random
) -> str:
    """Draws an admissible action without a deliberate beginning. The environment fills in a gap.

    Without admissible actions the environment draws an action.
    """
    if admissible and deliberate and all(action.startswith(deliberate) for action in admissible):
        raise ValueError(
            f"only {', '.join(deliberate)} is admissible, and the demonstrator must not take it"
            " at random: leave it out of deliberate"
        )
    while True:
        action = draw.choice(admissible) if admissible else UNPARSED
        if not action or action in env.open_actions:
            action = str(env.random_action(np.random.default_rng(draw.getrandbits(64))))
        if not action.startswith(deliberate):
            return action
