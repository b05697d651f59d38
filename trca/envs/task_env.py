"""`TaskEnv`: what the worlds of this package share, the course of an episode from task to end."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Protocol

from gymnasium.error import ResetNeeded

from trca.envs.panel import Panel
from trca.envs.text_env import TextEnv, TextInfo


class Follower(Protocol):
    """A adapter, as far as an episode is told to it."""

    def reset(self, task: str, observation: str, admissible: Sequence[str]) -> None:
        """Takes in the beginning of an episode."""
        ...

    def step(self, command: str, observation: str, admissible: Sequence[str]) -> object:
        """Takes in a transition."""
        ...


class TaskEnv(TextEnv):
    """Draws tasks, counts steps and keeps the transcript; a world says what its tasks and acts are.

    Attributes:
        env_id: Gymnasium id of the world.
        split: Name of the split the tasks come from.
        max_steps: The step limit.
    """

    env_id: ClassVar[str]

    def __init__(self, split: str, max_steps: int, render_mode: str | None) -> None:
        super().__init__()
        self.split = split
        self.max_steps = max_steps
        self.render_mode = render_mode
        self._task_id = ""
        self._steps = 0
        self._over = False
        self._record: list[tuple[str, str, list[str]]] = []
        self._followed = 0

    @abstractmethod
    def _start(self, task_id: Any, options: dict[str, Any]) -> str:
        """Starts a task and returns the first observation.

        Raises:
            ValueError: When the split has no such task; names the nearest one.
        """

    @abstractmethod
    def _carry_out(self, action: str) -> tuple[str, float, bool, TextInfo]:
        """Observation, reward, whether the world is at its end; accepted, won and score."""

    @abstractmethod
    def _described(self) -> tuple[str, str]:
        """Type and instruction of the present task."""

    def _measures(self) -> dict[str, float]:
        """What else is measured at the end of an episode."""
        return {}

    @property
    def panel(self) -> Panel:
        """The tasks as a panel, with its hash."""
        return Panel(self.env_id, self.split, self.task_ids)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Starts a task: the one in ``options["task"]``, else one drawn evenly from the split.

        Args:
            seed: Seeds the drawing of tasks; the world itself has no chance in it.
            options: ``{"task": task_id}``, or nothing.

        Raises:
            ValueError: When the split has no such task; names the nearest one.
        """
        super().reset(seed=seed)
        options = options or {}
        task_id = options.get("task")
        if task_id is None:
            task_id = self.task_ids[int(self.np_random.integers(len(self.task_ids)))]
        observation = self._start(task_id, options)
        self._task_id = str(task_id)
        self._steps = 0
        self._over = False
        offered = self.admissible_actions
        self._record = [("", observation, offered)]
        self._followed = 0
        return observation, dict(self._info(offered))

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Carries an action out; any string is legal, and blank means that none could be read.

        Raises:
            gymnasium.error.ResetNeeded: Before the first ``reset`` and after the end of an episode.
        """
        self._check_started()
        if self._over:
            raise ResetNeeded("the episode is over: call reset() to start another")
        observation, reward, terminated, outcome = self._carry_out(action)
        self._steps += 1
        offered = self.admissible_actions
        self._record.append((action, observation, offered))
        truncated = not terminated and self._steps == self.max_steps
        self._over = terminated or truncated
        info = {**self._info(offered), "parsed": bool(action.strip()), **outcome}
        if self._over and (measures := self._measures()):
            info["measures"] = measures
        return observation, reward, terminated, truncated, info

    def render(self) -> str | None:  # type: ignore[override]
        """The episode so far as text, in render mode ``ansi``."""
        if self.render_mode is None:
            return None
        return "\n\n".join(
            f"> {action}\n{observation}" if turn else observation
            for turn, (action, observation, _) in enumerate(self._record)
        )

    def _check_started(self) -> None:
        if not self._task_id:
            raise ResetNeeded("no task was started: call reset() first")

    def _follow(self, adapter: Follower) -> None:
        """Tells a adapter, always the same one, what an agent has seen and done since last time."""
        self._check_started()
        for action, observation, offered in self._record[self._followed :]:
            if self._followed:
                adapter.step(action, observation, offered)
            else:
                adapter.reset(self._described()[1], observation, offered)
            self._followed += 1

    def _info(self, offered: Sequence[str]) -> TextInfo:
        task_type, task = self._described()
        return TextInfo(
            task_id=self._task_id,
            split=self.split,
            task_type=task_type,
            task=task,
            admissible_actions=list(offered),
        )
