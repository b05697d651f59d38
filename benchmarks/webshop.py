"""WebShop in one process on one core: steps, resets, memory and a profile.

    python benchmarks/webshop.py
    python benchmarks/webshop.py --catalogue large --tasks 500

Plays goal-directed episodes with precomputed actions of the oracle, so that only the environment is
measured. Each task is played once, so no query is repeated. ``simulator`` has only the rules,
``WebShopEnv`` adds the Gymnasium interface, ``trca/WebShop-v0`` adds facts, context, memory and
rubric. Then the tasks are played again, as in a group of rollouts. All variants alternate on twenty
parts of the tasks. The table shows the best and the median part, since other work on the machine
slows some parts down. Seconds are processor time. The original WebShop takes 55 to 78 steps per
second, and 430 MB per environment.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import gymnasium
from measuring import resident_mib, timed
from rich.console import Console
from rich.table import Table

import trca.envs  # noqa: F401
from trca.envs.webshop.env import WebShopEnv
from trca.envs.webshop.simulator import Simulator

LIVE = 256
PARTS = 20
Script = tuple[int, str, list[str]]
"""Index of a goal, its task id, and the actions to a perfect purchase."""


def scripts(env: WebShopEnv, tasks: int) -> list[Script]:
    """Returns the oracle's actions for the first tasks."""
    plays = []
    for task_id in env.task_ids[:tasks]:
        env.reset(options={"task": task_id})
        actions, over = [], False
        while not over:
            actions.append(env.oracle_action())
            _, _, terminated, truncated, _ = env.step(actions[-1])
            over = terminated or truncated
        plays.append((int(task_id.rpartition("/")[2]), task_id, actions))
    return plays


def play_session(simulator: Simulator, plays: Sequence[Script]) -> int:
    """Plays all scripts in a simulator; returns the number of steps."""
    for index, _, actions in plays:
        simulator.reset(index)
        for action in actions:
            simulator.step(action)
    return sum(len(actions) for _, _, actions in plays)


def play_env(env: gymnasium.Env[str, str], plays: Sequence[Script]) -> int:
    """Plays all scripts through Gymnasium; returns the number of steps."""
    for _, task_id, actions in plays:
        env.reset(options={"task": task_id})
        for action in actions:
            env.step(action)
    return sum(len(actions) for _, _, actions in plays)


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--catalogue", default="small", help="a generated size, or official files")
    parser.add_argument("--tasks", type=int, default=1000)
    parser.add_argument("--profile", action="store_true", help="print a profile")
    args = parser.parse_args()
    kwargs: dict[str, Any] = {"catalogue": args.catalogue}
    loading, inner = timed(lambda: WebShopEnv(**kwargs))
    plays = scripts(inner, args.tasks)
    simulator = Simulator(inner.catalogue, inner.goals)
    judged = gymnasium.make("trca/WebShop-v0", **kwargs)
    console = Console(width=100)
    table = Table(
        "",
        "steps/s, best part",
        "median part",
        title=f"{len(inner.catalogue):,} products, one core",
    )
    runs: dict[str, Callable[[Sequence[Script]], int]] = {
        "simulator": partial(play_session, simulator),
        "WebShopEnv": partial(play_env, inner),
        "trca/WebShop-v0, judged": partial(play_env, judged),
        "the same tasks again": partial(play_env, judged),
    }
    rates: dict[str, list[float]] = {name: [] for name in runs}
    for part in range(PARTS):
        for name, run in runs.items():
            seconds, steps = timed(partial(run, plays[part::PARTS]))
            rates[name].append(steps / seconds)
    for name, values in rates.items():
        table.add_row(name, f"{max(values):,.0f}", f"{sorted(values)[PARTS // 2]:,.0f}")
    console.print(table)
    queries = [actions[0][7:-1] for _, _, actions in plays]
    seconds, _ = timed(lambda: [inner.catalogue.search(query, 50) for query in queries])
    lengths = [len(actions) for _, _, actions in plays]
    print(f"an episode has {sum(lengths) / len(lengths):.2f} steps and one search or more")
    print(f"a search: {1e6 * seconds / len(queries):.0f} microseconds")
    resetting, _ = timed(lambda: [inner.reset(options={"task": t}) for _, t, _ in plays])
    print(f"a reset: {1e6 * resetting / len(plays):.0f} microseconds; opening: {loading:.2f} s")
    before = resident_mib()
    envs = [gymnasium.make("trca/WebShop-v0", **kwargs) for _ in range(LIVE)]
    for number, env in enumerate(envs):
        play_env(env, plays[number % len(plays) :][:1])
    after = resident_mib()
    print(
        f"{LIVE} judged environments after an episode: {after - before:.0f} MiB; "
        f"the complete process: {after:.0f} MiB"
    )
    if args.profile:
        profile = cProfile.Profile()
        profile.runcall(play_env, judged, plays)
        pstats.Stats(profile).sort_stats("tottime").print_stats(25)


if __name__ == "__main__":
    main()
