"""Stock ALFWorld against ours in one run on one core: steps, resets, cold loads, memory.

    python benchmarks/alfworld_speed.py --games path/to/json_2.1.1
    python benchmarks/alfworld_speed.py --games medium

Both walk at random over admissible commands, and admissible commands are made at every step. Stock
is left untouched. Seconds are of processor time, so that other work on the machine does not count.
Memory is the peak of this process before stock is loaded. Ends with where our time goes.
"""

from __future__ import annotations

import argparse
import cProfile
import os
import pstats
import random
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TypeVar

import gymnasium
from alfworld_games import game_files
from rich.console import Console
from rich.table import Table

from trca.envs.alfworld.simulator import Game, Simulator

T = TypeVar("T")
LIVE = 256


def timed(act: Callable[[], T]) -> tuple[float, T]:
    """Seconds of processor time that an act takes, and what it gives."""
    started = time.process_time()
    result = act()
    return time.process_time() - started, result


def peak_mib() -> float:
    """The most memory that this process has held, in MiB."""
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def walk(simulators: Sequence[Simulator], steps: int) -> int:
    """Plays every simulator at random; returns the steps taken."""
    rng = random.Random(0)
    for simulator in simulators:
        simulator.reset()
        for _ in range(steps):
            simulator.step(rng.choice(simulator.admissible_actions))
    return len(simulators) * steps


def walk_judged(games: str, steps: int) -> float:
    """Steps a second of the whole environment: facts, context, memory and rubric as well."""
    env = gymnasium.make("trca.envs:trca/ALFWorld-v0", games=games, split="valid_seen")
    rng, taken, over = random.Random(0), 0, True
    env.reset(seed=0)
    started = time.process_time()
    while taken < steps:
        if over:
            _, info = env.reset()
        _, _, won, cut, info = env.step(rng.choice(info["admissible_actions"]))
        over = won or cut
        taken += 1
    return steps / (time.process_time() - started)


def measure_stock(paths: Sequence[Path], steps: int) -> dict[str, float]:
    """The same of stock, on fewer games."""
    from stock_alfworld import Stock

    rng = random.Random(0)
    stock = Stock()
    cold = warm = playing = 0.0
    for path in paths:
        loading, _ = timed(partial(stock.load, path))
        seconds, _ = timed(stock.reset)
        cold += loading + seconds
        seconds, shown = timed(stock.reset)
        warm += seconds
        for _ in range(steps):
            seconds, shown = timed(partial(stock.step, rng.choice(shown.admissible)))
            playing += seconds
    return {
        "steps": len(paths) * steps / playing,
        "cold": 1e3 * cold / len(paths),
        "warm": 1e3 * warm / len(paths),
    }


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--games", default="medium", help="official games, or a generated size")
    parser.add_argument("--steps", type=int, default=200, help="of ours, per game")
    parser.add_argument("--stock-games", type=int, default=4)
    parser.add_argument("--stock-steps", type=int, default=25)
    args = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory() as folder:
        splits = ["valid_seen", "valid_unseen"]
        paths = list(islice(game_files(args.games, splits, Path(folder)), LIVE))
        before = peak_mib()
        cold, simulators = timed(lambda: [Simulator(Game.from_file(path)) for path in paths])
        playing, taken = timed(lambda: walk(simulators, args.steps))
        after = peak_mib()
        warm, _ = timed(lambda: [simulator.reset() for simulator in simulators])
        judged = walk_judged(args.games, 2000)
        stock = measure_stock(paths[:: len(paths) // args.stock_games], args.stock_steps)
    ours = taken / playing
    rows = (
        ("steps/s", stock["steps"], ours, ours / stock["steps"]),
        ("steps/s with facts, context, judging", stock["steps"], judged, judged / stock["steps"]),
        ("cold load and reset, ms", stock["cold"], 1e3 * cold / len(paths), None),
        ("warm reset, ms", stock["warm"], 1e3 * warm / len(paths), None),
    )
    table = Table("", "stock", "ours", "times as fast", title=f"{args.games}, one core")
    for name, theirs, our, ratio in rows:
        table.add_row(name, f"{theirs:,.3g}", f"{our:,.4g}", f"{ratio or theirs / our:,.0f}")
    Console(width=100).print(table)
    print(
        f"{len(simulators)} live simulators of as many games: {after - before:.0f} MiB;"
        f" the whole process {after:.0f} MiB"
    )
    profile = cProfile.Profile()
    profile.runcall(walk, simulators, args.steps)
    print("where our time goes:")
    pstats.Stats(profile).sort_stats("tottime").print_stats(10)


if __name__ == "__main__":
    main()
