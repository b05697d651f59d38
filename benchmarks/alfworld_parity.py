"""Plays the same actions in stock ALFWorld and in trca's ALFWorld, and compares every step.

    python benchmarks/alfworld_parity.py --games path/to/json_2.1.1 --jobs 2
    python benchmarks/alfworld_parity.py --games medium --limit 60 --steps 80

Each game is played with its walkthrough and in random walks. Half of the actions in a random walk
are admissible (a random verb, then a random action with this verb), half are malformed.
Observation, admissible actions and their order, won and done must be equal at every step, and in
two further steps after the end of a game. To save time, stock ALFWorld caches translations and
parsed grammars, which does not change its outputs; ``--plain`` disables the caches and is several
times slower. Exits with 1 if anything differs.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter, defaultdict
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from alfworld_games import game_files
from rich.console import Console
from rich.progress import track
from stock_alfworld import Shown, Stock, remember

from trca.envs.alfworld.simulator import Game, Simulator

GARBAGE = (
    "", " ", "\n", "\t\x0b", "\x00", "look\x00", "é✓", "ｌｏｏｋ", "go", "go to", "open", "examine",
    "use", "slice", "take", "None", "0", "nothing", "Nothing happens.", "look around", "HELP",
    "Look", "inventory please", "put it there", "go to fridge 99", "go to fridge", "take mug 1",
    "take mug 99 from desk 1", "heat mug 1", "put mug 1 in/on desk 1", "go to loc_bar_1",
    "<action>look</action>", "look; inventory", "look\ninventory", "admissible", "{o}", "#intro#",
    "[{r.name}]", "go to cabinet 1 ; DROP TABLE", "a" * 10_000, "open fridge 1 and close fridge 1",
)  # fmt: skip


@dataclass(frozen=True)
class Plan:
    """The walks in each game.

    Attributes:
        walks: Number of random walks.
        steps: Steps per walk.
        seed: Seed of the walks.
        plain: Whether stock ALFWorld runs without caches.
    """

    walks: int = 3
    steps: int = 30
    seed: int = 0
    plain: bool = False


@dataclass
class Outcome:
    """The result of the comparison of a game.

    Attributes:
        steps: Number of compared steps.
        wins: Number of successful plays.
        carried_out: Number of executed actions by verb.
        differences: Descriptions of the differences.
    """

    steps: int = 0
    wins: int = 0
    carried_out: Counter[str] = field(default_factory=Counter)
    differences: list[str] = field(default_factory=list)


@cache
def stock(plain: bool) -> Stock:
    """Returns the stock environment of this process."""
    if not plain:
        remember()
    return Stock()


def compare(path: Path, plan: Plan) -> Outcome:
    """Plays a game in both simulators, and stops at the first difference."""
    outcome = Outcome()
    theirs, ours = stock(plan.plain), Simulator(Game.from_file(path))
    theirs.load(path)
    for walk in range(plan.walks + 1):
        script = [""] * plan.steps if walk else [*ours.game.walkthrough, "look", "\x00"]
        rng = random.Random(f"{plan.seed}/{'/'.join(path.parts[-4:])}/{walk}")
        commands: list[str] = []
        first = Shown(ours.reset(), ours.admissible_actions, ours.won, ours.done)
        if not _same(outcome, path, commands, theirs.reset(), first):
            return outcome
        for scripted in script:
            command = scripted or _random_command(rng, ours.admissible_actions)
            if not ours.done and command.strip() in ours.admissible_actions:
                outcome.carried_out[command.split()[0]] += 1
            commands.append(command)
            shown = Shown(ours.step(command), ours.admissible_actions, ours.won, ours.done)
            if not _same(outcome, path, commands, theirs.step(command), shown):
                return outcome
        outcome.wins += ours.won
        if walk == 0 and ours.game.walkthrough and not ours.won:
            outcome.differences.append(f"{path}: the walkthrough does not solve the game")
    return outcome


def _same(outcome: Outcome, path: Path, commands: list[str], theirs: Shown, ours: Shown) -> bool:
    outcome.steps += 1
    for name, a, b in zip(Shown._fields, theirs, ours, strict=True):
        if a != b:
            outcome.differences.append(
                f"{path}: {name} differs after {commands}\n  stock {a!r}\n  trca  {b!r}"
            )
    return theirs == ours


def _random_command(rng: random.Random, admissible: list[str]) -> str:
    """Draws an admissible or a malformed action with equal probability."""
    by_verb = defaultdict(list)
    for command in admissible:
        verb = command.split()[0]
        by_verb["look" if verb in ("help", "inventory") else verb].append(command)
    command = rng.choice(by_verb[rng.choice(sorted(by_verb))])
    if rng.random() < 0.5:
        return command if rng.random() < 0.9 else f" {command}\n"
    verb, _, rest = command.partition(" ")
    bent = (command.upper(), command.title(), f"{verb}  {rest}", command[:-1], command + " now")
    return rng.choice((*bent, rng.choice(GARBAGE), rng.choice(GARBAGE), rng.choice(GARBAGE)))


def main() -> int:
    """Compares the games of the splits."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--games", required=True, help="official games, or a generated size")
    parser.add_argument("--splits", nargs="+", default=["valid_seen", "valid_unseen"])
    parser.add_argument("--limit", type=int, help="largest number of games, evenly spread")
    parser.add_argument("--walks", type=int, default=3)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--plain", action="store_true", help="disable the caches of stock ALFWorld")
    args = parser.parse_args()
    plan = Plan(args.walks, args.steps, args.seed, args.plain)
    started, total, bad = time.perf_counter(), Outcome(), 0
    with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(args.jobs) as pool:
        paths = list(game_files(args.games, args.splits, Path(folder)))
        if args.limit:
            paths = paths[:: max(1, len(paths) // args.limit)][: args.limit]
        outcomes = pool.map(compare, paths, [plan] * len(paths))
        console = Console(stderr=True)
        for done, outcome in enumerate(
            track(
                outcomes, "comparing", len(paths), console=console, disable=not console.is_terminal
            )
        ):
            total.steps += outcome.steps
            total.wins += outcome.wins
            total.carried_out += outcome.carried_out
            bad += bool(outcome.differences)
            print(*outcome.differences, sep="\n", end="\n" if outcome.differences else "")
            if not console.is_terminal and (done + 1) % 20 == 0:
                print(f"{done + 1} of {len(paths)} games, {bad} differ", flush=True)
    verbs = ", ".join(f"{verb} {count}" for verb, count in total.carried_out.most_common())
    print(f"executed: {verbs}")
    print(
        f"{len(paths)} games, {total.steps} steps compared, {total.wins} plays won,"
        f" {bad} games differ, {time.perf_counter() - started:.0f} s"
    )
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
