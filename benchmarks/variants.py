"""`embedded/alfworld` with different engines and learners: learning curves at equal trajectories.

    python benchmarks/variants.py                        # all of `VARIANTS`
    python benchmarks/variants.py --variants plain LoRA  # two variants

Every run is a ``trca train embedded/alfworld`` from the same warm start with the same seed. A
repeated command skips finished runs and resumes interrupted runs. Variants with vLLM need the
Python environment of ``make test-vllm``.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

import numpy as np

from trca.cli.show.figures import draw_comparison
from trca.common.markdown import markdown_table
from trca.runs.curve import column

ROOT: Final = Path(__file__).parents[1]
_VLLM: Final = {"engine": "vllm"}
_FSDP: Final = {"sharding": "fsdp", "num_learners": 2}
_LORA: Final = {"lora_rank": 16, "lr": 2e-3}
_AHEAD: Final = {"max_staleness": 1, "num_env_runners": 1}
VARIANTS: Final[dict[str, dict[str, Any]]] = {
    "plain": {},
    "LoRA": _LORA,
    "two FSDP learners": _FSDP,
    "asynchronous": _AHEAD,
    "vLLM": _VLLM,
    "all together": {**_VLLM, **_FSDP, **_LORA, **_AHEAD},
}
"""Settings of each variant. An adapter learns at five times the rate of all weights."""


def train(name: str, iterations: int, seed: int, settings: dict[str, Any], folder: Path) -> Path:
    """Trains or resumes a variant; returns its run folder."""
    run = folder / name.lower().replace(" ", "-")
    if (run / "config.yaml").exists():
        if json.loads((run / "status.json").read_text())["state"] == "finished":
            return run
        arguments = ["--resume", str(run)]
    else:
        arguments = [
            *("embedded/alfworld", "--iterations", str(iterations), "--seed", str(seed)),
            *("--storage-path", str(folder), "--name", run.name),
            *(f"--set={key}={value}" for key, value in settings.items()),
        ]
    start = time.monotonic()
    with (folder / f"{run.name}.log").open("ab") as log:
        done = subprocess.run(
            [sys.executable, "-m", "trca", "train", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
        )
    print(f"{name}: exit {done.returncode} after {time.monotonic() - start:.0f} s", flush=True)
    if done.returncode:
        raise SystemExit(f"See {folder / run.name}.log; the same command resumes.")
    return run


def table(runs: dict[str, list[dict[str, Any]]]) -> str:
    """Returns a table with one row per variant."""
    heads = ("success, mean", "last 5", "held out, last", "mismatch_kl, largest", "staleness")
    lines = list[list[str]]()
    for name, rows in runs.items():
        success, held_out = column(rows, "success_rate"), column(rows, "evaluation/success_rate")
        cells = [f"{part:.1%}" for part in (success.mean(), success[-5:].mean())]
        cells.append(f"{held_out[~np.isnan(held_out)][-1]:.1%}")
        cells.append(f"{np.nanmax(column(rows, 'mismatch_kl')):.1e}")
        cells.append(f"{np.nanmean(column(rows, 'staleness')):.2f}")
        lines.append([name, *cells])
    return markdown_table(["", *heads], lines)


def main() -> None:
    """Trains, then prints the table and draws the curves."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--variants", nargs="+", choices=list(VARIANTS), default=list(VARIANTS))
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--seed", type=int, default=31)
    parser.add_argument("--set", action="append", default=[], help="key=value for every run")
    parser.add_argument("--output", type=Path, default=ROOT / "outputs" / "variants")
    parser.add_argument("--image", type=Path, help="file of the figure [default: in --output]")
    asked = parser.parse_args()
    folder = asked.output.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    common = {
        "env_config.games": f"small-{asked.seed}",
        "num_env_runners": 0,
        "num_learners": 0,
        "evaluation_tasks": 128,
        **dict(each.split("=", 1) for each in asked.set),
    }
    runs = {}
    for name in asked.variants:
        run = train(name, asked.iterations, asked.seed, {**common, **VARIANTS[name]}, folder)
        lines = (run / "metrics.jsonl").read_text().splitlines()
        runs[name] = [json.loads(line) for line in lines]
    print(table(runs))
    draw_comparison(
        {name: [rows] for name, rows in runs.items()},
        asked.image or folder / "variants.png",
        f"embedded/alfworld: {asked.iterations} iterations by engine and learners",
        f"panel (generator seed) {asked.seed}",
    )


if __name__ == "__main__":
    main()
