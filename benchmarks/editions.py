"""Speed of this checkout next to an older checkout: environments, credit, iterations, start.

    git worktree add /tmp/before COMMIT
    python benchmarks/editions.py /tmp/before

Both checkouts take turns with the same work in fresh processes, so other work on the machine slows
both. Seconds are processor time of all processes, the lowest of the rounds: other work adds time
and never takes time away. A ratio is this checkout's seconds, divided by the older checkout's;
below 1, this checkout is faster. The range has the ratio of each round.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

import psutil

HERE: Final = Path(__file__).parents[1]
STEPS: Final = """
import json, random, sys, time
import gymnasium
env = gymnasium.make("trca.envs:" + sys.argv[1])
chance = random.Random(0)
spent = {"resets": 0.0, "steps": 0.0}
for episode in range(400):
    start = time.process_time()
    _, info = env.reset(seed=episode)
    spent["resets"] += time.process_time() - start
    ended, count = False, 0
    while not ended and count < 10:
        action = chance.choice(info["admissible_actions"] or ["look"])
        start = time.process_time()
        _, _, terminated, truncated, info = env.step(f"<think></think><action>{action}</action>")
        spent["steps"] += time.process_time() - start
        ended, count = terminated or truncated, count + 1
print(json.dumps(spent))
"""
ENVIRONMENTS: Final = "trca/ALFWorld-v0", "trca/WebShop-v0", "trca/SearchQA-v0"
ITERATIONS: Final = 4
SHORT: Final = (
    f"--set=iterations={ITERATIONS}",
    "--set=tasks_per_iteration=8",
    "--set=budgets={evidence: 0.1, invalidity: 0.5, execution: 0.5}",
    "--set=num_env_runners=0",
    "--set=num_learners=0",
    "--set=evaluation_interval=1000",
)


def environment(checkout: Path, name: str) -> dict[str, float]:
    """Returns processor seconds of the resets and steps of 400 episodes of random actions."""
    done = subprocess.run(
        [sys.executable, "-c", STEPS, name],
        cwd=checkout,
        env=_variables(checkout),
        capture_output=True,
        text=True,
        check=True,
    )
    spent = json.loads(done.stdout.splitlines()[-1])
    return {f"{name} {part}": seconds for part, seconds in spent.items()}


def credit(checkout: Path) -> dict[str, float]:
    """Returns processor seconds of each rule for 1,000,000 steps, by the checkout's benchmark."""
    done = subprocess.run(
        [sys.executable, "benchmarks/credit.py"],
        cwd=checkout,
        env=_variables(checkout),
        capture_output=True,
        text=True,
        check=True,
    )
    tables = done.stdout.split("groups of 128")[0].splitlines()[1:]
    return {f"credit {line.split()[0]}": float(line.split()[3]) for line in tables if line}


def training(checkout: Path) -> dict[str, float]:
    """Returns processor seconds of the start with the first iteration, and of later iterations."""
    with tempfile.TemporaryDirectory() as folder:
        process = psutil.Popen(
            [sys.executable, "-m", "trca", "train", "quickstart", "--storage-path", folder, *SHORT],
            cwd=checkout,
            env=_variables(checkout),
            stdout=subprocess.DEVNULL,
        )
        first = _seconds_until(process, Path(folder), 1)
        last = _seconds_until(process, Path(folder), ITERATIONS)
        for each in [process, *process.children(recursive=True)]:
            each.kill()
        process.wait()
    return {
        "start and first iteration": first,
        "iteration": (last - first) / (ITERATIONS - 1),
    }


def _seconds_until(process: psutil.Popen, folder: Path, iterations: int) -> float:
    """Processor seconds of a run when its file of metrics has so many lines."""
    while True:
        lines = sum(path.read_bytes().count(b"\n") for path in folder.glob("*/metrics.jsonl"))
        each = [process, *process.children(recursive=True)]
        seconds = sum(sum(one.cpu_times()[:2]) for one in each if one.is_running())
        if lines >= iterations:
            return seconds
        if process.poll() is not None:
            raise RuntimeError(f"the run in {folder} ended with code {process.returncode}")
        time.sleep(0.05)


def _variables(checkout: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1"}


def main() -> None:
    """Prints one line per measurement."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("before", type=Path, help="the older checkout")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    checkouts = given.before.resolve(), HERE
    seconds: list[dict[str, list[float]]] = [{}, {}]
    for number in range(given.rounds):
        for place in (0, 1) if number % 2 else (1, 0):
            checkout = checkouts[place]
            measured = credit(checkout) | training(checkout)
            for name in ENVIRONMENTS:
                measured |= environment(checkout, name)
            for name, value in measured.items():
                seconds[place].setdefault(name, []).append(value)
    print(f"{'processor seconds, lowest':32}{'before':>10}{'after':>10}{'ratio':>8}{'range':>14}")
    for name, before in seconds[0].items():
        if name not in seconds[1]:
            continue
        after = seconds[1][name]
        ratios = [b / a for a, b in zip(before, after, strict=True)]
        print(
            f"{name:32}{min(before):10.3f}{min(after):10.3f}"
            f"{min(after) / min(before):8.2f}{min(ratios):7.2f}-{max(ratios):.2f}"
        )


if __name__ == "__main__":
    main()
