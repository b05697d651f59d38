"""The toy environment of the tests: two rooms, and a key in one of them."""

import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium

from trca.envs import make
from trca.envs.adapter import Adapter
from trca.envs.text_env import Gold, Outcome, TextEnv

ACTIONS = ["go", "take key", "knock", "sing"]


@dataclass(frozen=True)
class RoomsBinding:
    thing: str = ""


@dataclass(frozen=True)
class RoomsFacts:
    action: str = ""
    room: int = 0
    moved: bool = False
    first_sight: bool = False
    taken: bool = False


class RoomsAdapter(Adapter):
    facts_type = RoomsFacts
    binding_type = RoomsBinding

    def reset(self, instruction: str, observation: str, admissible: Sequence[str]) -> None:
        self.binding = RoomsBinding(instruction.removeprefix("take the ").removesuffix("."))
        self.facts = RoomsFacts()
        self._room, self._seen = _room(observation), "key is here" in observation

    def step(self, action: str, observation: str, admissible: Sequence[str]) -> RoomsFacts:
        before, self._room = self._room, _room(observation)
        first_sight = not self._seen and "key is here" in observation
        self._seen = self._seen or first_sight
        taken = "have the key" in observation
        moved = self._room != before
        self.facts = RoomsFacts(action, self._room, moved, first_sight, taken)
        return self.facts

    @property
    def context(self) -> str:
        return f"room {self._room}"


class Rooms(TextEnv):
    """Take the key. An even task starts in the next room, an odd task in the room of the key.

    Args:
        split: Prefix of the task ids.
        max_steps: The step limit.
        tasks: Number of tasks.
        wind: Probability, at every step, that the wind moves the agent to the next room.
        broken: Tasks whose start raises an error.
        leaking: Tasks whose second step raises an error.
        poison: A folder. A step removes a file of the folder, if there is any, and kills its
            process.
        passages: Whether the gold has a passage.
        milestones: Whether a step into the room of the key is reported as a milestone.
    """

    adapter_class = RoomsAdapter
    library = Path(__file__).with_name("toy.yaml")

    def __init__(
        self,
        split: str = "train",
        max_steps: int = 4,
        tasks: int = 12,
        wind: float = 0.0,
        broken: tuple[str, ...] = (),
        leaking: tuple[str, ...] = (),
        poison: str = "",
        passages: bool = False,
        milestones: bool = False,
    ) -> None:
        super().__init__(split, max_steps)
        self._passages = ("the key is in room 1.",) if passages else ()
        self._milestones = milestones
        self._poison = Path(poison) if poison else None
        self._wind, self._broken, self._leaking = wind, broken, leaking
        self._tasks = tuple(f"{split}-{k}" for k in range(tasks))

    @property
    def task_ids(self) -> tuple[str, ...]:
        return self._tasks

    @property
    def instruction(self) -> str:
        return "take the key."

    @property
    def task_type(self) -> str:
        return self._type

    @property
    def admissible_actions(self) -> list[str]:
        return list(ACTIONS)

    def demonstrator_action(self) -> str:
        return "take key" if self._room else "go"

    def gold(self, task_id: str) -> Gold:
        answers = (f"the key of {task_id}", "a key")
        said = tuple(f"say {answer}" for answer in answers)
        walkthrough = ("go", "take key")[int(task_id.rsplit("-", 1)[1]) % 2 :]
        return Gold(answers, self._passages, said, walkthrough)

    def start_task(self, task_id: str, options: dict[str, Any]) -> str:
        if task_id in self._broken:
            raise RuntimeError(f"the door of {task_id} is stuck")
        self._progress = options.get("progress", -1.0)
        self._dry_steps = 1 if task_id in self._leaking else self.max_steps
        self._room = int(task_id.rsplit("-", 1)[1]) % 2
        self._type = ("Even", "Odd")[self._room]
        return self._see()

    def take_action(self, action: str) -> Outcome:
        for dose in self._poison.glob("*") if self._poison else ():
            with suppress(FileNotFoundError):  # another process has taken it
                dose.unlink()
                os.kill(os.getpid(), signal.SIGKILL)
        if self._dry_steps == 0:
            raise RuntimeError("the roof is leaking")
        self._dry_steps -= 1
        before = self._room
        if action == "take key" and self._room == 1:
            text, milestone = "You are in room 1. You have the key.", self._reported(False)
            return Outcome(text, reward=1.0, terminated=True, milestone=milestone)
        if (action == "go") != (self.np_random.random() < self._wind):
            self._room = 1 - self._room
        milestone = self._reported(before < self._room)
        return Outcome(self._see(), accepted=action == "go", milestone=milestone)

    def episode_measures(self) -> dict[str, float]:
        words = self._room / 2
        return {"progress": self._progress, "f1": words, "word_set_f1": words}

    def _reported(self, milestone: bool) -> bool | None:
        return milestone if self._milestones else None

    def _see(self) -> str:
        return f"You are in room {self._room}." + (" A key is here." if self._room else "")


def _room(observation: str) -> int:
    return int("room 1" in observation)


def make_rooms(config: dict[str, Any]) -> gymnasium.Env[str, str]:
    return make(Rooms, **config)
