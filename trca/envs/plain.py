"""`PlainEnv`: turns a Gymnasium environment with text spaces into a `TextEnv`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import gymnasium
from gymnasium.spaces import Text

from trca.envs.panel import no_task
from trca.envs.text_env import MissingPartError, Outcome, TextEnv

SPLITS: Final = {
    split: {f"seed-{seed}": seed for seed in seeds}
    for split, seeds in {"train": range(1000), "test": range(1000, 1128)}.items()
}
"""Split -> task id -> seed. One seed is one task."""
STEPS: Final = 25
"""Default step limit."""


class PlainEnv(TextEnv):
    """Wraps a Gymnasium environment whose observations and actions are text.

    A task is a seed, such as ``seed-7``, which is passed to ``reset``. The instruction is
    ``info["task"]``, or the first observation if this key is missing. ``admissible_actions``,
    ``won``, ``score`` and ``accepted`` come from ``info`` if present. Defaults: an episode is won
    if it terminates with a positive reward; the score is the sum of the rewards. The wrapper uses
    ``oracle_action``, ``demonstrator_action``, ``demonstrator_subgoal`` and the attributes
    ``waits`` and ``open_actions`` of the environment if present.
    """

    default_split = "test"

    def __init__(
        self, env: gymnasium.Env[Any, Any], split: str = "train", max_steps: int | None = None
    ) -> None:
        """Wraps an environment for a split of `SPLITS`.

        Without ``max_steps``, the step limit is that of the environment, or else `STEPS`.
        """
        name = type(env.unwrapped).__name__
        for space_name, space in (
            ("observations", env.observation_space),
            ("actions", env.action_space),
        ):
            if not isinstance(space, Text):
                raise TypeError(
                    f"the {space_name} of {name} are {space}: use gymnasium.spaces.Text"
                )
        if split not in SPLITS:
            raise ValueError(f"unknown split {split!r} of {name}: choose {' or '.join(SPLITS)}")
        declared_steps = env.spec.max_episode_steps if env.spec else None
        declared_steps = declared_steps or getattr(env.unwrapped, "max_steps", None)
        super().__init__(
            split, next((n for n in (max_steps, declared_steps) if n is not None), STEPS)
        )
        self.plain = env
        self.waits = bool(getattr(env.unwrapped, "waits", False))
        self.open_actions = frozenset(getattr(env.unwrapped, "open_actions", ()))  # type: ignore[misc]
        self.env_id = env.spec.id if env.spec else name
        self._plain_info: dict[str, Any] = {}
        self._first = ""
        self._return = 0.0

    @property
    def task_ids(self) -> tuple[str, ...]:
        """One task id per seed of the split."""
        return tuple(SPLITS[self.split])

    @property
    def instruction(self) -> str:
        """The task in words."""
        return str(self._plain_info.get("task", self._first))

    @property
    def task_type(self) -> str:
        """The type of the current task."""
        return str(self._plain_info.get("task_type", super().task_type))

    @property
    def admissible_actions(self) -> list[str]:
        """The admissible actions now."""
        return list(self._plain_info.get("admissible_actions", ()))

    def start_task(self, task_id: str, options: dict[str, Any]) -> str:
        """Resets the environment with the seed of the task."""
        seeds = SPLITS[self.split]
        if task_id not in seeds:
            raise no_task(task_id, self.split, self.task_ids)
        self._first, self._plain_info = self.plain.reset(seed=seeds[task_id])
        self._return = 0.0
        return self._first

    def take_action(self, action: str) -> Outcome:
        """Steps the environment."""
        observation, reward, terminated, truncated, info = self.plain.step(action)
        self._plain_info = {"task": self.instruction, "task_type": self.task_type, **info}
        self._return += float(reward)
        return Outcome(
            observation=observation,
            reward=float(reward),
            terminated=terminated,
            truncated=truncated,
            accepted=bool(info.get("accepted", True)),
            won=bool(info.get("won", terminated and float(reward) > 0)),
            score=float(info.get("score", self._return)),
            milestone=bool(info["milestone"]) if "milestone" in info else None,
        )

    def oracle_action(self) -> str:
        """The ``oracle_action`` of the wrapped environment."""
        return self._optional("oracle_action", super().oracle_action)

    def demonstrator_action(self) -> str:
        """The ``demonstrator_action`` of the wrapped environment."""
        return self._optional("demonstrator_action", super().demonstrator_action)

    def demonstrator_subgoal(self) -> str:
        """The ``demonstrator_subgoal`` of the wrapped environment."""
        return self._optional("demonstrator_subgoal", super().demonstrator_subgoal)

    def close(self) -> None:
        """Closes the environment."""
        self.plain.close()

    def _optional(self, name: str, otherwise: Callable[[], str]) -> str:
        """The result of an optional method of the wrapped environment, else of ``otherwise``."""
        method = getattr(self.plain.unwrapped, name, None)
        try:
            return str(method()) if method else otherwise()
        except MissingPartError as error:
            raise MissingPartError(str(error).replace(type(self).__name__, self.env_id)) from None
