"""Plays the same commands in stock ALFWorld and in ours, and compares every step.

    python benchmarks/alfworld_parity.py --games PATH --splits valid_seen valid_unseen

Each game is played through its walkthrough and through random walks, half of whose commands are
admissible and half malformed. Observation, admissible commands, done and won must be equal at every
step. Stock's caches below leave its outputs as they are and spare its repeated parsing; ``--plain``
plays stock untouched, about ten times slower.
"""

from __future__ import annotations

import argparse
import functools
import random
import sys
import time
from pathlib import Path
from typing import Any

import fast_downward
import textworld
import textworld.envs.pddl.logic as pddl_logic
from alfworld.agents.environment.alfred_tw_env import AlfredDemangler
from rich.progress import track
from textworld.envs.pddl.pddl import PddlEnv
from textworld.logic import Rule

from trca.envs.alfworld.engine import Game, Session

MALFORMED = (
    "", " ", "go", "go to", "Go To Fridge 1", "go to  fridge 1", "go to fridge 99", "put it there",
    "take mug 1", "open", "examine", "look around", "HELP", "inventory please", "\x00", "é✓", "use",
    "go to fridge 1; look", "<action>look</action>", "None", "0", "slice", "heat mug 1", "nothing",
)  # fmt: skip


def cache_stock() -> None:
    """Memoises stock's pure functions: translation, grammar parsing, query parsing."""
    plain = fast_downward.pddl2sas
    cached = functools.lru_cache(maxsize=4)(
        lambda domain, problem, optimize: plain(domain, problem, optimize=optimize)
    )

    def pddl2sas(domain: str, problem: str, verbose: bool = False, optimize: bool = False) -> Any:
        return cached(domain, problem, optimize)

    fast_downward.pddl2sas = pddl2sas
    pddl_logic.fast_downward.pddl2sas = pddl2sas
    Rule.parse_conjunctive_query = functools.lru_cache(maxsize=None)(Rule.parse_conjunctive_query)
    import copy

    from textworld.envs.pddl import textgen

    parse = functools.lru_cache(maxsize=None)(textgen._parse_and_convert)
    textgen._parse_and_convert = lambda *args, **kwargs: copy.deepcopy(parse(*args, **kwargs))


def stock_env() -> Any:
    """Stock's environment as ALFWorld's agents see it, for one game at a time."""
    infos = textworld.EnvInfos(won=True, admissible_commands=True)
    return AlfredDemangler(PddlEnv(infos), shuffle=False)


def walk_commands(rng: random.Random, admissible: list[str]) -> str:
    """A random command: as often malformed as admissible."""
    if rng.random() < 0.5:
        return rng.choice(admissible)
    garbage = rng.choice(MALFORMED)
    return rng.choice((garbage, rng.choice(admissible).upper(), rng.choice(admissible) + " now"))


def compare(stock: Any, path: Path, walks: int, steps: int, seed: int) -> tuple[int, list[str]]:
    """Plays a game in both; returns the steps compared and what differed."""
    stock.load(str(path))
    session = Session(Game.from_file(path))
    differences: list[str] = []
    compared = 0

    def check(where: str, state: Any, observation: str, done: bool) -> None:
        nonlocal compared
        compared += 1
        ours = (observation, session.admissible_commands, session.won, session.done)
        theirs = (state.feedback, state["admissible_commands"], state["won"], done)
        differences.extend(
            f"{path.parent.name} {where}: {what}\n  stock {b!r}\n  ours  {a!r}"
            for what, a, b in zip(("text", "admissible", "won", "done"), ours, theirs, strict=True)
            if a != b
        )

    for walk in range(walks + 1):
        rng = random.Random(f"{seed}/{path}/{walk}")
        check(f"walk {walk} reset", stock.reset(), session.reset(), False)
        script = list(session.game.walkthrough) if walk == 0 else [""] * steps
        for turn, scripted in enumerate(script):
            command = scripted or walk_commands(rng, session.admissible_commands)
            state, _, done = stock.step(command)
            check(f"walk {walk} step {turn} {command!r}", state, session.step(command), done)
            if done or differences:
                break
        if walk == 0 and script and not session.won and not differences:
            differences.append(f"{path.parent.name}: the walkthrough does not win")
    return compared, differences


def main() -> int:
    """Compares all games of the chosen splits."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--games", type=Path, required=True, help="folder of official games")
    parser.add_argument("--splits", nargs="+", default=["valid_seen", "valid_unseen"])
    parser.add_argument("--limit", type=int, help="only every so many games, evenly spread")
    parser.add_argument("--walks", type=int, default=3)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plain", action="store_true", help="leave stock untouched")
    args = parser.parse_args()
    paths = sorted(p for s in args.splits for p in args.games.glob(f"**/{s}/**/game.tw-pddl"))
    if not paths:
        parser.error(f"no game.tw-pddl under {args.games} in {args.splits}")
    if args.limit:
        paths = paths[:: max(1, len(paths) // args.limit)]
    if not args.plain:
        cache_stock()
    stock = stock_env()
    started, total, bad = time.perf_counter(), 0, 0
    for path in track(paths, "comparing", disable=not sys.stdout.isatty()):
        compared, differences = compare(stock, path, args.walks, args.steps, args.seed)
        total += compared
        bad += bool(differences)
        print("\n".join(differences[:2]), end="\n" if differences else "", flush=True)
    seconds = time.perf_counter() - started
    print(f"{len(paths)} games, {total} steps compared, {bad} games differ, {seconds:.0f} s")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
