"""The toy environment of the tests: two rooms, and a key in one of them."""

from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np

from trca.envs.text_env import UNPARSED, TextEnv

ACTIONS = ["go", "take key", "knock", "sing"]
OPERATORS = SimpleNamespace(
    ids=("key_seen", "no_command", "key_taken"), categories=np.array([0, 1, 2], dtype=np.int8)
)


class Rooms(TextEnv):
    """Take the key: an even task starts one room away from it, an odd one beside it.

    Args:
        split: Prefix of the task ids.
        max_steps: The step limit.
        tasks: Number of tasks.
        wind: Probability, at every step, that the wind moves the agent to the other room.
        broken: Tasks that cannot be started.
    """

    judge = SimpleNamespace(library=OPERATORS)

    def __init__(
        self,
        split: str = "train",
        max_steps: int = 4,
        tasks: int = 12,
        wind: float = 0.0,
        broken: tuple[str, ...] = (),
    ) -> None:
        super().__init__()
        self.split, self.max_steps, self._wind, self._broken = split, max_steps, wind, broken
        self._tasks = tuple(f"{split}-{k}" for k in range(tasks))

    @property
    def task_ids(self) -> tuple[str, ...]:
        return self._tasks

    @property
    def admissible_actions(self) -> list[str]:
        return list(ACTIONS)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        gymnasium.Env.reset(self, seed=seed)
        self._task = (options or {}).get("task", self._tasks[0])
        if self._task in self._broken:
            raise RuntimeError(f"the door of {self._task} is stuck")
        self._progress = (options or {}).get("progress", -1.0)
        self._turn, self._room = 0, int(self._task.rsplit("-", 1)[1]) % 2
        return self._see(), self._info(self._room)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        before = self._room
        self._turn += 1
        won = action == "take key" and before == 1
        if (action == "go") != (self.np_random.random() < self._wind):
            self._room = 1 - self._room
        fired = (int(self._room == 1), int(action == UNPARSED), int(won))
        info = self._info(before) | {
            "next_context": f"{self._task}:{self._room}",
            "parsed": action != UNPARSED,
            "accepted": action == "go" or won,
            "won": won,
            "score": float(won),
            "measures": {"progress": self._progress},
            "rubric": {
                "judgments": np.array(fired, dtype=np.uint8),
                "foundational": 0.0,
                "breakthrough": 0.0,
            },
        }
        return self._see(), float(won), won, not won and self._turn >= self.max_steps, info

    def _see(self) -> str:
        return f"You are in room {self._room}." + (" A key is here." if self._room else "")

    def _info(self, room: int) -> dict[str, Any]:
        return {
            "task_id": self._task,
            "split": self.split,
            "task_type": "Odd" if int(self._task.rsplit("-", 1)[1]) % 2 else "Even",
            "task": "take the key.",
            "admissible_actions": list(ACTIONS),
            "context": f"{self._task}:{room}",
            "memory": "",
        }


def make_rooms(config: dict[str, Any]) -> Rooms:
    return Rooms(**config)
