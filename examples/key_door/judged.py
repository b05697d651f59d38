"""An environment with facts, a binding and a rubric library: TRCA trains on it.

trca train quickstart --env examples/key_door/judged.py:KeyDoor
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np

from trca.envs import Adapter, Outcome, TextEnv

PLACES = ("hall", "kitchen", "cellar", "study", "garden")
COLOURS = ("red", "blue", "green")


@dataclass(frozen=True)
class Facts:
    """What one transition showed; every field has a default."""

    parsed: bool = True
    accepted: bool = False
    repeated: bool = False
    verb: Literal["", "go", "take", "open"] = ""
    new_place: bool = False
    new_keys: tuple[str, ...] = ()
    new_door: bool = False
    held: str = ""
    taken: str = ""
    door_here: bool = False
    opened: bool = False


@dataclass(frozen=True)
class Binding:
    """What the instruction asks for."""

    key: str = ""


class KeyDoorAdapter(Adapter):
    """Reads the facts out of what the agent saw and did."""

    facts_type, binding_type = Facts, Binding

    def reset(self, instruction: str, observation: str, admissible: Sequence[str]) -> None:
        self.binding, self.facts = Binding(instruction.split()[4]), Facts()
        self.place, self.held = "hall", ""
        self.keys: dict[str, str] = {}
        self.door = ""
        self.visited, self.states = {self.place}, {("hall", "")}

    def step(self, action: str, observation: str, admissible: Sequence[str]) -> Facts:
        verb = action.split(" ")[0]
        accepted = observation != "Nothing happens."
        known, door, visited = set(self.keys), self.door, len(self.visited)
        if accepted and verb == "go":
            self.place = action.removeprefix("go to ")
            self.visited.add(self.place)
        if accepted and verb == "take":
            self.held = action.split()[1]
        words = observation.replace(".", "").split()
        for colour in COLOURS:
            if (colour, "key") in pairwise(words):
                self.keys.setdefault(colour, self.place)
        if "door" in words:
            self.door = self.place
        state = (self.place, self.held)
        self.facts = Facts(
            parsed=action.strip() != "",
            accepted=accepted,
            repeated=accepted and verb != "open" and state in self.states,
            verb=verb if verb in ("go", "take", "open") else "",  # type: ignore[arg-type]
            new_place=len(self.visited) > visited,
            new_keys=tuple(colour for colour in self.keys if colour not in known),
            new_door=self.door != door,
            held=self.held,
            taken=self.held if accepted and verb == "take" else "",
            door_here=self.door == self.place,
            opened=accepted and verb == "open",
        )
        self.states.add(state)
        return self.facts

    @property
    def context(self) -> str:
        keys = sorted(self.keys.items())
        return f"{self.binding.key}|{self.place}|{self.held}|{keys}|{self.door}"


class KeyDoor(TextEnv):
    """Find the key of a colour among several, and open the door with it."""

    adapter_class = KeyDoorAdapter
    library = Path(__file__).with_name("rubric.yaml")
    default_split = "test"
    tiny_policy = {"hidden_size": 64, "layers": 2, "stages": ((0.5, 300),)}  # noqa: RUF012

    def __init__(self, split: str = "train", max_steps: int = 12, tasks: int = 64) -> None:
        super().__init__(split, max_steps)
        self.tasks = tasks

    @property
    def task_ids(self) -> tuple[str, ...]:
        return tuple(f"{self.split}-{number}" for number in range(self.tasks))

    @property
    def instruction(self) -> str:
        return f"open the door with {self.colour} key."

    def start_task(self, task_id: str, options: dict[str, Any]) -> str:
        if task_id not in self.task_ids:
            raise ValueError(f"split {self.split!r} has no task {task_id!r}")
        draw = np.random.default_rng([len(self.split), int(task_id.rpartition("-")[2])])
        places = draw.permutation(PLACES[1:]).tolist()
        self.keys = dict(zip(COLOURS, places, strict=False))
        self.door, self.colour = places[3], str(draw.choice(COLOURS))
        self.place, self.held = PLACES[0], ""
        return self.look()

    def take_action(self, action: str) -> Outcome:
        if action not in self.admissible_actions:
            return Outcome("Nothing happens.", accepted=False)
        if action == "open door":
            won = self.held == self.colour
            return Outcome("It opens." if won else "It stays shut.", float(won), terminated=True)
        if action.startswith("take "):
            self.held = action.split()[1]
            del self.keys[self.held]
        else:
            self.place = action.removeprefix("go to ")
        return Outcome(self.look())

    @property
    def admissible_actions(self) -> list[str]:
        actions = [f"go to {place}" for place in PLACES if place != self.place]
        if not self.held:
            actions += [f"take {colour} key" for colour in self.here()]
        return [*actions, "open door"] if self.held and self.place == self.door else actions

    def here(self) -> list[str]:
        return [colour for colour, place in self.keys.items() if place == self.place]

    def look(self) -> str:
        seen = [f"a {colour} key" for colour in self.here()]
        seen += ["a door"] if self.place == self.door else []
        held = f" You hold a {self.held} key." if self.held else ""
        return f"You are in the {self.place}. You see {' and '.join(seen) or 'nothing'}.{held}"

    def oracle_action(self) -> str:
        goal = self.door if self.held else self.keys[self.colour]
        if self.place != goal:
            return f"go to {goal}"
        return "open door" if self.held else f"take {self.colour} key"

    def demonstrator_action(self) -> str:
        adapter: KeyDoorAdapter = self.adapter
        goal = adapter.door if self.held else adapter.keys.get(self.colour, "")
        unseen = [place for place in PLACES if place not in adapter.visited]
        goal = goal or (unseen[0] if unseen else PLACES[0])
        if self.place != goal:
            return f"go to {goal}"
        if self.held:
            return "open door" if goal == self.door else f"go to {PLACES[0]}"
        return f"take {self.colour} key" if self.colour in self.here() else f"go to {PLACES[0]}"
