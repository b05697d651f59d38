"""Success of the oracle, the demonstrator and a random player, by games, split and task type.

Run: ``python benchmarks/alfworld_players.py small medium large [official]``
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable

from rich.console import Console
from rich.table import Table

from trca.envs.alfworld.data.sources import game_source
from trca.envs.alfworld.env import ALFWorldEnv
from trca.envs.alfworld.resources import TASK_TYPES

Player = Callable[[ALFWorldEnv, list[str]], str]


def players(seed: int) -> dict[str, Player]:
    """Returns the players by name."""
    rng = random.Random(seed)
    return {
        "oracle": lambda env, _: env.oracle_action(),
        "demonstrator": lambda env, _: env.demonstrator_action(),
        "random": lambda _, admissible: rng.choice(admissible),
    }


def play(env: ALFWorldEnv, task: str, player: Player) -> tuple[bool, int]:
    """Plays a task; returns whether the player succeeds, and the number of steps."""
    _, info = env.reset(options={"task": task})
    for steps in range(1, env.max_steps + 1):
        _, _, won, _, info = env.step(player(env, info["admissible_actions"]))
        if won:
            return True, steps
    return False, env.max_steps


def main() -> None:
    """Prints one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("games", nargs="+")
    parser.add_argument("--tasks", type=int, default=120, help="largest number of tasks per type")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    table = Table("games", "split", "type", *(f"{name} wins" for name in players(0)))
    for games in options.games:
        for split in game_source(games).splits:
            for task_type in TASK_TYPES:
                env = ALFWorldEnv(games, split, task_types=[task_type])
                cells = []
                for player in players(options.seed).values():
                    ends = [play(env, task, player) for task in env.task_ids[: options.tasks]]
                    won = [steps for win, steps in ends if win]
                    mean = f" in {sum(won) / len(won):.1f} steps" if won else ""
                    cells.append(f"{len(won)}/{len(ends)}{mean}")
                table.add_row(games, split, task_type, *cells)
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
