"""`PlainEnv`: makes any Gymnasium environment of text a `TextEnv`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import gymnasium
from gymnasium.spaces import Text

from trca.envs.panel import no_task
from trca.envs.text_env import MissingPartError, Outcome, TextEnv

SPLITS: Final = {"train": range(1000), "test": range(1000, 1128)}
"""The seeds that are the tasks of each split."""
STEPS: Final = 25
"""The step limit of an environment that has none of its own."""


class PlainEnv(TextEnv):
    """A plain environment under the contract of text environments.

    A task is a seed, such as ``seed-7``: the environment is reset with it. The instruction is
    ``info["task"]``, else the first observation. ``admissible_actions``, ``won``, ``score`` and
    ``accepted`` are taken from its ``info`` where it gives them; ``won`` is else an end with a
    positive reward, ``score`` the sum of the rewards. Its ``oracle_action``,
    ``demonstrator_action`` and ``demonstrator_subgoal`` are used where it has them, and so is its
    attribute ``waits``.

    Attributes:
        plain: The plain environment.
    """

    default_split = "test"

    def __init__(
        self, env: gymnasium.Env[Any, Any], split: str = "train", max_steps: int | None = None
    ) -> None:
        """Wraps an environment.

        Args:
            env: An environment whose observations and actions are text.
            split: ``train`` or ``test``; see `SPLITS`.
            max_steps: The step limit; None for its own, or `STEPS`.

        Raises:
            TypeError: When its observations or actions are not text.
            ValueError: For an unknown split or a step limit below 1.
        """
        name = type(env.unwrapped).__name__
        for what, space in (
            ("observations", env.observation_space),
            ("actions", env.action_space),
        ):
            if not isinstance(space, Text):
                raise TypeError(f"the {what} of {name} are {space}: a text environment has Text")
        if split not in SPLITS:
            raise ValueError(f"unknown split {split!r} of {name}: choose {' or '.join(SPLITS)}")
        own = env.spec.max_episode_steps if env.spec else None
        own = own or getattr(env.unwrapped, "max_steps", None)
        super().__init__(split, next((n for n in (max_steps, own) if n is not None), STEPS))
        self.plain = env
        self.waits = bool(getattr(env.unwrapped, "waits", False))
        self.env_id = env.spec.id if env.spec else name
        self._seeds = {f"seed-{seed}": seed for seed in SPLITS[split]}
        self._told: dict[str, Any] = {}
        self._first = ""
        self._return = 0.0

    @property
    def task_ids(self) -> tuple[str, ...]:
        """The seeds of the split."""
        return tuple(self._seeds)

    @property
    def instruction(self) -> str:
        """``info["task"]``, else the first observation."""
        return str(self._told.get("task", self._first))

    @property
    def task_type(self) -> str:
        """``info["task_type"]``, else all tasks are alike."""
        return str(self._told.get("task_type", super().task_type))

    @property
    def admissible_actions(self) -> list[str]:
        """``info["admissible_actions"]``, else none are named."""
        return list(self._told.get("admissible_actions", ()))

    def start_task(self, task_id: str, options: dict[str, Any]) -> str:
        """Resets the environment with the seed of the task."""
        if task_id not in self._seeds:
            raise no_task(task_id, self.split, self.task_ids)
        self._first, self._told = self.plain.reset(seed=self._seeds[task_id])
        self._return = 0.0
        return self._first

    def take_action(self, action: str) -> Outcome:
        """Steps the environment."""
        observation, reward, terminated, truncated, told = self.plain.step(action)
        self._told = {"task": self.instruction, "task_type": self.task_type, **told}
        self._return += float(reward)
        return Outcome(
            observation=observation,
            reward=float(reward),
            terminated=terminated,
            truncated=truncated,
            accepted=bool(told.get("accepted", True)),
            won=bool(told.get("won", terminated and float(reward) > 0)),
            score=float(told.get("score", self._return)),
        )

    def oracle_action(self) -> str:
        """The environment's own oracle's."""
        return self._own("oracle_action", super().oracle_action)

    def demonstrator_action(self) -> str:
        """The environment's own demonstrator's."""
        return self._own("demonstrator_action", super().demonstrator_action)

    def demonstrator_subgoal(self) -> str:
        """What that is for, by the environment's own word."""
        return self._own("demonstrator_subgoal", super().demonstrator_subgoal)

    def close(self) -> None:
        """Closes the environment."""
        self.plain.close()

    def _own(self, name: str, otherwise: Callable[[], str]) -> str:
        found = getattr(self.plain.unwrapped, name, None)
        try:
            return str(found()) if found else otherwise()
        except MissingPartError as error:
            raise MissingPartError(str(error).replace(type(self).__name__, self.env_id)) from None
