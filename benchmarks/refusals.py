"""Seconds of the commands that refuse, help or look: each in a separate process.

::

    python benchmarks/refusals.py
    python benchmarks/refusals.py --python /other/checkout/.venv/bin/python --repeats 3

Prints the wall-clock seconds, the CPU seconds, and the heavy libraries that the command imported.
The fastest of the repetitions counts: other programs on the machine only add to it.
"""

from __future__ import annotations

import argparse
import os
import resource
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

COMMANDS = (
    "--help",
    "train --help",
    "sweep --help",
    "submit --help",
    "train quikstart",
    "train --set lrr=1",
    "train --set lr=-1",
    "train --algorithm TRCO",
    "train --games smal",
    "train --resume nothing",
    "train --name q",
    "train --model ./nothing",
    "evaluate outputs/nothing",
    "export outputs/nothing --to x",
    "inspect nothing",
    "jobs list",
    "submit quickstart --to ray",
    "submit quikstart --to slurm",
    "plan --gpus 4",
    "plan",
    "train --dry-run",
)
"""Commands as a user types them, after ``trca``; ``outputs/q`` is a run that exists."""
HEAVY = ("torch", "ray", "transformers", "scipy", "matplotlib", "pandas")
PROGRAM = f"""
import atexit, sys
atexit.register(lambda: print("imported", *({set(HEAVY)} & set(sys.modules)), file=sys.stderr))
from trca.cli import app
app(prog_name="trca")
"""


def measure(python: str, command: str, folder: Path) -> tuple[float, float, str]:
    """Runs a command once.

    Args:
        python: The interpreter that has the package.
        command: The command's words after ``trca``.
        folder: The working directory.

    Returns:
        Wall-clock seconds, CPU seconds, and the names of heavy libraries.
    """
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        [python, "-c", PROGRAM, *shlex.split(command)],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    _, _, imported = done.stderr.rpartition("imported")
    return wall, cpu, " ".join(sorted(imported.split()))


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", default=sys.executable, help="Interpreter to measure.")
    parser.add_argument("--repeats", type=int, default=3, help="Runs of each command.")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        run = Path(scratch) / "outputs" / "q"
        run.mkdir(parents=True)
        (run / "config.yaml").write_text("algorithm: TRCA\n")
        print("| command | seconds | CPU seconds | imported |\n|---|---:|---:|---|")
        for command in COMMANDS:
            runs = [
                measure(arguments.python, command, Path(scratch)) for _ in range(arguments.repeats)
            ]
            wall, cpu, imported = min(runs)
            print(f"| `trca {command}` | {wall:.2f} | {cpu:.2f} | {imported} |", flush=True)


if __name__ == "__main__":
    main()
