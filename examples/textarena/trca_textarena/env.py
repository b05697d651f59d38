"""Nim of TextArena as a text environment: two players take objects from three piles in turns."""

from __future__ import annotations

from functools import reduce
from itertools import product
from operator import xor
from pathlib import Path
from typing import Any, Final

import numpy as np
import textarena
from textarena import ObservationType

from trca.common.names import unknown
from trca.envs import Outcome, TextEnv
from trca.envs.panel import no_task

PLAYERS: Final = Path(__file__).with_name("players.yaml")
"""The team of the game."""
ROLES: Final = ("first", "second")
"""The roles, by TextArena's number of the player."""


class Nim(TextEnv):
    """Nim of TextArena 0.7.4: who takes the last object wins.

    A task is a start such as ``3-4-2``: the objects of each pile. An observation is TextArena's
    board. An action is TextArena's ``[pile quantity]``. Rewards are TextArena's: 1 for the winner
    and -1 for the loser. TextArena warns a player once; here the first invalid move loses, because
    each turn of a team is one action.
    """

    env_id = "textarena/Nim-v0"
    default_split = "test"
    language = ("largest",)
    tiny_policy = {  # noqa: RUF012
        "hidden_size": 64,
        "layers": 2,
        "feed_forward": 192,
        "stages": ((0.8, 500),),
    }

    def __init__(
        self,
        split: str = "train",
        max_steps: int = 20,
        largest: int = 4,
        random_role: str | None = None,
    ) -> None:
        """Chooses the starts.

        Args:
            split: ``test`` has every fifth start, ``train`` the others.
            max_steps: The step limit.
            largest: Objects of the largest pile.
            random_role: A role whose moves are replaced by random moves, for evaluations.

        Raises:
            ValueError: For an unknown split or role, or without any start.
        """
        super().__init__(split, max_steps)
        if split not in ("train", "test"):
            raise unknown("split", split, ("train", "test"))
        if random_role not in (None, *ROLES):
            raise unknown("random_role", random_role, ROLES)
        starts = enumerate(product(range(1, largest + 1), repeat=3))
        self._tasks = tuple(
            "-".join(map(str, s)) for k, s in starts if (k % 5 == 2) == (split == "test")
        )
        if not self._tasks:
            raise ValueError(f"largest is {largest}: give 2 or more")
        self._random_role = random_role

    @property
    def task_ids(self) -> tuple[str, ...]:
        return self._tasks

    @property
    def instruction(self) -> str:
        return "Take objects from one pile: [pile quantity]. Who takes the last object wins."

    @property
    def piles(self) -> list[int]:
        """The objects of each pile."""
        piles: list[int] = self._game.state.game_state["piles"]
        return piles

    @property
    def admissible_actions(self) -> list[str]:
        return [f"[{k} {n}]" for k, pile in enumerate(self.piles) for n in range(1, pile + 1)]

    def start_task(self, task_id: str, options: dict[str, Any]) -> str:
        if task_id not in self._tasks:
            raise no_task(task_id, self.split, self._tasks)
        self._game: Any = textarena.make("Nim-v0-raw", piles=[int(n) for n in task_id.split("-")])
        self._game.reset(num_players=2)
        self._game.state.error_allowance = 0
        return self._board()

    def take_action(self, action: str) -> Outcome:
        player = self._game.state.current_player_id
        if ROLES[player] == self._random_role:
            action = self.random_action(self.np_random)
        done, _ = self._game.step(action)
        given = self._game.state.rewards or {0: 0, 1: 0}
        invalid = self._game.state.game_info[player]["invalid_move"]
        rewards = {role: float(given[number]) for number, role in enumerate(ROLES)}
        own = rewards[ROLES[player]]
        return Outcome(self._board(), own, done, accepted=not invalid, rewards=rewards)

    def oracle_action(self) -> str:
        """A winning move if there is one: it leaves piles whose binary sum without carry is 0."""
        total = reduce(xor, self.piles)
        for number, pile in enumerate(self.piles):
            if pile ^ total < pile:
                return f"[{number} {pile - (pile ^ total)}]"
        return self.demonstrator_action()

    def demonstrator_action(self) -> str:
        """Takes one object from the largest pile."""
        return f"[{int(np.argmax(self.piles))} 1]"

    def _board(self) -> str:
        """TextArena's last board, for the player with the turn."""
        _, messages = self._game.get_observation()
        boards = [text for _, text, kind in messages if kind is ObservationType.GAME_BOARD]
        return "\n".join(line.strip() for line in boards[-1].splitlines()[1:])
