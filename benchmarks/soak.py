"""Trains for 200 iterations and measures the memory of every process of the run.

Run it (a quarter of an hour)::

    OMP_NUM_THREADS=1 python benchmarks/soak.py
    OMP_NUM_THREADS=1 python benchmarks/soak.py --iterations 1000 --staleness 2

TRCA in ALFWorld, a random model of Qwen2.5's architecture, 2 groups of 4 rollouts, two env runners
and a learner in separate processes. Each process reports its memory after every iteration. The
table shows the first iteration and each tenth of the run. The last line is the slope of a straight
line through the second half, in MiB per 100 iterations. The exit status is 1 if a slope exceeds the
bound.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

os.environ.setdefault("RAY_worker_niceness", "0")

import numpy as np
import ray

from trca.algorithms import TRCAConfig
from trca.common.process import own_memory_mb

BOUND: Final = 5.0
"""Largest growth of a process in the second half, in MiB per 100 iterations."""
TINY: Final[dict[str, Any]] = {
    "model": "shrunk:Qwen/Qwen2.5-1.5B-Instruct",
    "env_config": {"games": "small", "max_steps": 3},
    "tasks_per_iteration": 2,
    "group_size": 4,
    "max_new_tokens": 6,
    "max_prompt_tokens": 160,
    "minibatch_size": 64,
    "train_malformed": True,
    "evaluation_interval": None,
    "num_env_runners": 2,
    "num_learners": 1,
}


def memory(algorithm: Any) -> list[float]:
    """Returns the memory of the driver, each env runner and each learner in MiB."""
    runners = algorithm.env_runner_group.foreach_env_runner(own_memory_mb, local_env_runner=False)
    learners = [r.get() for r in algorithm.learner_group.foreach_learner(own_memory_mb)]
    return [own_memory_mb(), *runners, *learners]


def main() -> int:
    """Trains and prints the table; returns 1 if a process grows too fast."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--iterations", type=int, default=200, help="at least 20")
    parser.add_argument("--staleness", type=int, default=0, help="max_staleness")
    parser.add_argument("--out", type=Path, help="CSV file for the memory after every iteration")
    asked = parser.parse_args()
    config = TRCAConfig.from_preset("quickstart").debugging(seed=7)
    config.update_from_dict(TINY | {"max_staleness": asked.staleness})
    with TemporaryDirectory(prefix="ray") as folder:  # short, because it holds Ray's sockets
        ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False, _temp_dir=folder)
        algorithm = config.build_algo()
        names = ["driver", "runner 1", "runner 2", "learner"]
        print(f"{'iteration':>9} " + " ".join(f"{name:>9}" for name in names), "  seconds")
        start, rows = time.perf_counter(), []
        for number in range(1, asked.iterations + 1):
            algorithm.train()
            rows.append(memory(algorithm))
            if number == 1 or number % (asked.iterations // 10) == 0:
                cells = " ".join(f"{mib:9.1f}" for mib in rows[-1])
                print(f"{number:9} {cells} {time.perf_counter() - start:9.0f}", flush=True)
        algorithm.stop()
        ray.shutdown()
    table = np.array(rows)
    if asked.out:
        np.savetxt(asked.out, table, fmt="%.1f", delimiter=",", header=",".join(names), comments="")
    half = np.arange(len(table) // 2, len(table))
    slopes = np.polyfit(half, table[half], 1)[0] * 100
    print(f"{'MiB / 100':>9} " + " ".join(f"{slope:9.2f}" for slope in slopes))
    bad = [name for name, slope in zip(names, slopes, strict=True) if slope > BOUND]
    print(f"growth above {BOUND:g} MiB per 100 iterations: {', '.join(bad) or 'no process'}")
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
