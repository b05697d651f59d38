"""A plain Gymnasium environment with text spaces, on which GRPO and GiGPO train.

The file does not import TRCA. Only the tiny policy uses `tiny_policy` and `demonstrator_action`.

trca train quickstart --algorithm GiGPO --env examples/plain_key_door.py:KeyDoor
"""

import string
from typing import Any

import gymnasium
from gymnasium.spaces import Text

PLACES = ("hall", "kitchen", "cellar", "study", "garden")


class KeyDoor(gymnasium.Env[str, str]):
    """Find the key and open the door with it. ``reset(seed=...)`` draws the places of both."""

    max_steps = 12
    tiny_policy = {"hidden_size": 64, "layers": 2, "stages": ((0.5, 300),)}  # noqa: RUF012

    def __init__(self) -> None:
        self.observation_space = Text(200, charset=string.printable)
        self.action_space = Text(200, charset=string.printable)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        key, door = self.np_random.choice(PLACES[1:], size=2, replace=False)
        self.key, self.door, self.place = str(key), str(door), PLACES[0]
        return self.look(), {"task": "open the door.", "admissible_actions": self.actions()}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        info: dict[str, Any] = {"accepted": action in self.actions()}
        opened = info["accepted"] and action == "open door"
        if info["accepted"] and action == "take key":
            self.key = "hand"
        elif info["accepted"] and not opened:
            self.place = action.removeprefix("go to ")
        info["admissible_actions"] = self.actions()
        return "The door is open." if opened else self.look(), float(opened), opened, False, info

    def look(self) -> str:
        things = {"a key": self.key, "a door": self.door}
        here = [thing for thing, place in things.items() if place == self.place]
        held = " You hold the key." if self.key == "hand" else ""
        return f"You are in the {self.place}. You see {' and '.join(here) or 'nothing'}.{held}"

    def actions(self) -> list[str]:
        actions = [f"go to {place}" for place in PLACES if place != self.place]
        if self.key == self.place:
            actions.append("take key")
        if self.key == "hand" and self.door == self.place:
            actions.append("open door")
        return actions

    def demonstrator_action(self) -> str:
        """For the tiny policy: walks round, takes the key, opens the door."""
        here = PLACES.index(self.place)
        useful = [action for action in self.actions() if not action.startswith("go to ")]
        return useful[0] if useful else f"go to {PLACES[(here + 1) % len(PLACES)]}"
