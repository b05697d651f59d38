"""A world of two rooms and a key, where the wind decides as much as the agent."""

from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np

from trca.envs.text_env import UNPARSED, TextEnv

OPERATORS = SimpleNamespace(
    ids=("key_seen", "no_command", "key_taken"), categories=np.array([0, 1, 2], dtype=np.int8)
)


class Rooms(TextEnv):
    judge = SimpleNamespace(library=OPERATORS)

    def __init__(
        self,
        split: str = "train",
        max_steps: int = 4,
        tasks: int = 12,
        broken: tuple[str, ...] = (),
    ) -> None:
        super().__init__()
        self.split, self.max_steps, self._broken = split, max_steps, broken
        self._tasks = tuple(f"{split}-{k}" for k in range(tasks))

    @property
    def task_ids(self) -> tuple[str, ...]:
        return self._tasks

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
        taken = action == "take key" or self.np_random.random() < 0.15
        if action == "go" or self.np_random.random() < 0.3:
            self._room = 1 - self._room
        won = bool(taken and before == 1)
        fired = (int(self._room == 1), int(action == UNPARSED), int(won))
        info = self._info(before) | {
            "next_context": f"{self._task}:{self._room}",
            "parsed": action != UNPARSED,
            "accepted": action in ("go", "take key"),
            "won": won,
            "score": float(won),
            "measures": {"progress": self._progress},
            "rubric": {
                "judgments": np.array(fired, dtype=np.uint8),
                "foundational": 0.0,
                "breakthrough": 0.0,
            },
        }
        return self._see(), float(won), won, self._turn >= self.max_steps, info

    def _see(self) -> str:
        return f"You are in room {self._room}." + (" A key is here." if self._room else "")

    def _info(self, room: int) -> dict[str, Any]:
        return {
            "task_id": self._task,
            "split": self.split,
            "task_type": "Even" if self._task.endswith(("0", "2", "4", "6", "8")) else "Odd",
            "task": "take the key.",
            "admissible_actions": ["go", "take key"],
            "context": f"{self._task}:{room}",
            "memory": "",
        }


def make_rooms(config: dict[str, Any]) -> Rooms:
    return Rooms(**config)
