"""Stock ALFWorld against trca's ALFWorld on one core: steps, resets, cold loads, memory.

    python benchmarks/alfworld_speed.py --games path/to/json_2.1.1
    python benchmarks/alfworld_speed.py --games medium

Both simulators take random admissible actions, and list the admissible actions at every step. Stock
ALFWorld runs unchanged. Seconds are processor time, so that other work on the machine does not
count. Memory is the peak of this process before stock ALFWorld is loaded. The output ends with a
profile of trca's simulator.
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
    """Returns the processor time of a call in seconds, and its result."""
    started = time.process_time()
    result = act()
    return time.process_time() - started, result


def peak_mib() -> float:
    """Returns the peak memory of this process in MiB."""
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def walk(simulators: Sequence[Simulator], steps: int) -> int:
    """Takes random actions in every simulator; returns the number of steps."""
    rng = random.Random(0)
    for simulator in simulators:
        simulator.reset()
        for _ in range(steps):
            simulator.step(rng.choice(simulator.admissible_actions))
    return len(simulators) * steps


def walk_judged(games: str, steps: int) -> float:
    """Returns steps per second of the environment with facts, context, memory and rubric."""
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
    """Measures stock ALFWorld, on fewer games."""
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
    parser.add_argument("--steps", type=int, default=200, help="steps per game of trca")
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
        f" the complete process {after:.0f} MiB"
    )
    profile = cProfile.Profile()
    profile.runcall(walk, simulators, args.steps)
    print("profile of trca's simulator:")
    pstats.Stats(profile).sort_stats("tottime").print_stats(10)


if __name__ == "__main__":
    main()
