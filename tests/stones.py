"""A game of two players for the tests: who takes the last stone wins."""

from typing import Any

from tests.toy import ACTIONS
from trca.envs import Outcome, TextEnv

TAKES = {"go": 1, "take key": 1, "sing": 2}
"""Stones that an action of the toy environment takes. Any other action loses."""

TEAM = """
names: [numbered]
roles:
  first: {acts: [all]}
  second: {acts: [all]}
"""


class Stones(TextEnv):
    """Players take one or two stones in turns. A task is a number of stones, from 1 to 8.

    Texts and actions are those of the toy environment, which its model can answer.

    Args:
        split: Any name.
        max_steps: The step limit.
        roles: Names of the players, in turns.
    """

    def __init__(
        self,
        split: str = "train",
        max_steps: int = 8,
        roles: tuple[str, ...] = ("first", "second"),
    ) -> None:
        super().__init__(split, max_steps)
        self._roles = tuple(roles)

    @property
    def task_ids(self) -> tuple[str, ...]:
        return tuple(map(str, range(1, 9)))

    @property
    def instruction(self) -> str:
        return "take the key."

    @property
    def admissible_actions(self) -> list[str]:
        return list(ACTIONS)

    def demonstrator_action(self) -> str:
        return "sing" if self._left % 3 == 2 else "go"

    def start_task(self, task_id: str, options: dict[str, Any]) -> str:
        self._left, self._moves = int(task_id), 0
        return self._text()

    def take_action(self, action: str) -> Outcome:
        player = self._moves % len(self._roles)
        self._moves += 1
        taken = TAKES.get(action, 0)
        lost = not 0 < taken <= self._left
        self._left -= 0 if lost else taken
        over = lost or self._left == 0
        sign = -1.0 if lost else 1.0
        rewards = {
            role: over * (sign if number == player else -sign)
            for number, role in enumerate(self._roles)
        }
        own = rewards[self._roles[player]]
        return Outcome(self._text(), own, over, accepted=not lost, rewards=rewards)

    def _text(self) -> str:
        return "You are in room 1. A key is here." if self._left % 2 else "You are in room 0."
