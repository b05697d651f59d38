"""Seconds from the start of `trca train` to the end of its first iteration, against Ray Tune.

    python benchmarks/start.py

The direct driver builds the algorithm in the process of the command. The peer is the same command,
whose driver is a `tune.Tuner` of one trial with the same config: Ray starts one more process, which
imports PyTorch, Ray and RLlib once more. Both take turns. The processor time is that of all
processes of a run, those of Ray included.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil

from trca.algorithms.settings.parameters import TextParameters
from trca.tune_configs.files import read


def fit_one_trial(settings: Any, run: Any, progress: Any) -> None:
    """Trains by a Tune experiment of one trial, in place of `trca.cli.run.training.train`."""
    from ray import tune

    from trca.algorithms import ALGORITHMS
    from trca.cli.run.training import running_ray

    progress.stage("starting Ray")
    with running_ray(1 + settings.resources()[0], progress.stage):
        progress.stage("starting the trial")
        tune.Tuner(
            ALGORITHMS[settings.algorithm],
            param_space=settings.algorithm_config(),
            run_config=tune.RunConfig(storage_path=str(run.path.absolute()), verbose=0),
        ).fit()


def measure(driver: str, config: str) -> tuple[float, float]:
    """Returns wall-clock and processor seconds to the end of the first iteration of a new run."""
    with TemporaryDirectory() as folder:
        start = time.perf_counter()
        process = psutil.Popen(
            [sys.executable, __file__, "--run", driver, config, "--storage-path", folder],
            stdout=subprocess.DEVNULL,
        )
        while not any(path.stat().st_size for path in Path(folder).rglob("metrics.jsonl")):
            if process.poll() is not None:
                raise RuntimeError(f"the run by {driver} ended with code {process.returncode}")
            time.sleep(0.02)
        wall = time.perf_counter() - start
        processes = [process, *process.children(recursive=True)]
        cpu = sum(sum(each.cpu_times()[:2]) for each in processes)
        for each in processes:
            each.kill()
        psutil.wait_procs(processes)
    return wall, cpu


def main() -> None:
    """Prints one line per driver, and the difference of the medians."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--config", default="quickstart")
    parser.add_argument("--times", type=int, default=3)
    given = parser.parse_args()
    TextParameters.resolve(
        read(given.config)
    ).algorithm_config().resolved_model()  # fills the cache
    seconds: dict[str, list[tuple[float, float]]] = {"direct": [], "tune": []}
    for _ in range(given.times):
        for driver, measured in seconds.items():
            measured.append(measure(driver, given.config))
    medians = {}
    print(f"{'driver':12}{'seconds, best':>16}{'median':>10}{'processor, median':>20}")
    for driver, measured in seconds.items():
        wall, cpu = zip(*measured, strict=True)
        medians[driver] = statistics.median(wall)
        print(f"{driver:12}{min(wall):16.1f}{medians[driver]:10.1f}{statistics.median(cpu):20.1f}")
    more = medians["tune"] - medians["direct"]
    print(
        f"tune starts {more:+.1f} s later, {medians['tune'] / medians['direct']:.2f} times as long"
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--run"]:
        from trca.cli import app
        from trca.cli.run import training

        if sys.argv[2] == "tune":
            training.train = fit_one_trial
        app(["train", *sys.argv[3:]])
    main()
