"""A game of keys and a door, with facts, a binding and a rubric library: TRCA trains on it.

trca train train.yaml
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from trca.envs import Adapter, Outcome, TextEnv
from trca.envs.panel import no_task

PLACES = ("hall", "kitchen", "cellar", "study", "garden")
KEYS = ("red key", "blue key")
REFUSAL = "Nothing happens."
SPLITS = {"train": 5, "test": 4}  # seeds of the games of each split


@dataclass(frozen=True)
class Facts:
    """The facts of one transition, which the conditions of the library read as ``facts``.

    Attributes:
        verb: The first word of the action; empty for an unreadable response.
        accepted: Whether the environment carried out the action.
        repeated: Whether the agent saw the same observation before.
        new: The places and things that the agent sees for the first time.
        here: The things at the place of the agent.
        held: The thing in the hand of the agent, or ``nothing``.
    """

    verb: str = ""
    accepted: bool = False
    repeated: bool = False
    new: tuple[str, ...] = ()
    here: tuple[str, ...] = ()
    held: str = ""


@dataclass(frozen=True)
class Binding:
    """The requirements of the instruction, which the conditions read as ``task``.

    Attributes:
        key: The key that opens the door.
    """

    key: str = ""


class KeyDoorAdapter(Adapter):
    """Reads facts, binding and context only from observations and actions."""

    facts_type, binding_type = Facts, Binding
    facts: Facts
    binding: Binding

    def reset(self, instruction: str, observation: str, admissible: Sequence[str]) -> None:
        self.binding = Binding(instruction.partition("with the ")[2].removesuffix("."))
        self.places: dict[str, str] = {}  # first place of each place and thing
        self.seen: set[str] = set()
        self.step("", observation, admissible)
        self.facts = Facts()

    def step(self, action: str, observation: str, admissible: Sequence[str]) -> Facts:
        if observation.startswith("Place: "):
            parts = observation.removesuffix(".").split(". ")
            self.place, here, self.held = (part.partition(": ")[2] for part in parts)
            self.here = tuple(thing for thing in here.split(", ") if thing != "nothing")
        new = tuple(name for name in (self.place, *self.here) if name not in self.places)
        accepted, verb = observation != REFUSAL, action.partition(" ")[0]
        repeated = accepted and observation in self.seen
        self.facts = Facts(verb, accepted, repeated, new, self.here, self.held)
        self.places |= dict.fromkeys(new, self.place)
        self.seen.add(observation)
        return self.facts

    @property
    def memory(self) -> str:
        """The line that the tiny policy reads instead of the observation, with ``memory: true``."""
        been = [name for name, place in self.places.items() if name == place]
        seen = [f"{name} in {place}" for name, place in self.places.items() if name != place]
        now = f"In {self.place} with {self.held}."
        return f"{now} Been in {', '.join(been)}. Seen: {', '.join(seen) or 'nothing'}."

    @property
    def context(self) -> str:
        return f"{self.binding.key}|{self.place}|{self.held}|{sorted(self.places.items())}"


class KeyDoor(TextEnv):
    """Find the key of the right colour, and open the door with it.

    The actions are ``go to PLACE``, ``take KEY`` and ``open door``; the answer to other actions
    is "Nothing happens.". The episode ends with ``open door``.
    """

    adapter_class = KeyDoorAdapter
    library = Path(__file__).with_name("rubric.yaml")
    default_split = "test"
    tiny_policy = {"hidden_size": 64, "layers": 2, "stages": ((0.5, 300),)}  # noqa: RUF012

    def __init__(self, split: str = "train", max_steps: int = 12) -> None:
        super().__init__(split, max_steps)
        if split not in SPLITS:
            raise ValueError(f"unknown split {split!r}: choose {' or '.join(SPLITS)}")

    @property
    def task_ids(self) -> tuple[str, ...]:
        return tuple(f"{self.split}-{number}" for number in range(64))

    @property
    def instruction(self) -> str:
        return f"open the door with the {self.key}."

    def start_task(self, task_id: str, options: dict[str, Any]) -> str:
        if task_id not in self.task_ids:
            raise no_task(task_id, self.split, self.task_ids)
        draw = np.random.default_rng([SPLITS[self.split], self.task_ids.index(task_id)])
        places = draw.permutation(PLACES[1:]).tolist()
        self.things = dict(zip((*KEYS, "door"), places, strict=False))
        self.key, self.place, self.held = str(draw.choice(KEYS)), PLACES[0], "nothing"
        return self.look()

    def take_action(self, action: str) -> Outcome:
        if action not in self.admissible_actions:
            return Outcome(REFUSAL, accepted=False)
        if action == "open door":
            won = self.held == self.key
            return Outcome("It opens." if won else "It stays shut.", float(won), terminated=True)
        if action.startswith("take "):
            self.held = action.removeprefix("take ")
            del self.things[self.held]
        else:
            self.place = action.removeprefix("go to ")
        return Outcome(self.look())

    @property
    def admissible_actions(self) -> list[str]:
        actions = [f"go to {place}" for place in PLACES if place != self.place]
        if self.held == "nothing":
            return actions + [f"take {thing}" for thing in self.here() if thing in KEYS]
        return actions + ["open door"] * ("door" in self.here())

    def here(self) -> list[str]:
        return [thing for thing, place in self.things.items() if place == self.place]

    def look(self) -> str:
        here = ", ".join(self.here()) or "nothing"
        return f"Place: {self.place}. Here: {here}. In hand: {self.held}."

    def oracle_action(self) -> str:
        return self.next_action(self.things)

    def demonstrator_action(self) -> str:
        return self.next_action(self.adapter.places)

    def next_action(self, known: Mapping[str, str]) -> str:
        wanted, action = (self.key, f"take {self.key}")
        if self.held != "nothing":
            wanted, action = "door", "open door"
        place = known.get(wanted) or next(p for p in PLACES if p not in self.adapter.places)
        return action if place == self.place else f"go to {place}"
