"""Time until `trca view` shows a run with many rollouts.

    python benchmarks/view.py outputs/quickstart [--rollouts 10000] [--chromium /usr/bin/chromium]

Creates a temporary run with a single iteration of that size, from copies of the recorded rollouts
of the given run. Measures three times: the index, which the command builds before it serves; the
list, which consists of all requests until the page shows all groups; and with a browser, the time
from opening the page to the first visible rows.
"""

from __future__ import annotations

import argparse
import json
import shutil
import socket
import time
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread

import uvicorn
from measuring import resident_mib, timed

from trca.cli.view.runs import RecordedRun
from trca.cli.view.server import HOST, create_app
from trca.records import read_rollouts, write_rollouts
from trca.runs.folder import RunFolder
from trca.runs.rollout_files import iteration_files, rollout_file


def enlarge(source: Path, target: Path, rollouts: int, size: int = 8) -> Path:
    """Copies a run's config and metrics, and its rollouts as often as needed, in groups of 8."""
    target.mkdir()
    for name in ("config.yaml", "metrics.jsonl"):
        shutil.copy(source / name, target / name)
    played = [
        rollout
        for file in iteration_files(RunFolder(source), "train").values()
        for rollout in read_rollouts(file)
    ]
    copies = [
        replace(rollout, group=number // size, index=number % size)
        for number, rollout in zip(range(rollouts), cycle(played), strict=False)
    ]
    path = rollout_file(RunFolder(target), "train", 1)
    texts = [step.observation for rollout in copies for step in rollout.steps]
    write_rollouts(path, copies, texts)
    return path


def main() -> None:
    """Creates the run, and prints the times."""
    parser = argparse.ArgumentParser()
    parser.add_argument("run", type=Path)
    parser.add_argument("--rollouts", type=int, default=10_000)
    parser.add_argument("--chromium")
    given = parser.parse_args()
    with TemporaryDirectory() as folder:
        path = enlarge(given.run, Path(folder) / "run", given.rollouts)
        print(f"{given.rollouts:,} rollouts, {path.stat().st_size / 2**20:,.0f} MiB")
        run = RecordedRun(RunFolder(Path(folder) / "run"))
        run.about()  # imports the environments, like the command before it serves
        before, started = resident_mib(), time.perf_counter()
        seconds, index = timed(lambda: run.index("train", 1))
        groups, wall = index.groups, time.perf_counter() - started
        print(f"index: {wall:.2f} s, {seconds:.2f} s of processor, {len(groups):,} groups")
        started = time.perf_counter()
        size = len(json.dumps(run.groups("train", 1)))
        print(f"list: {time.perf_counter() - started:.2f} s, {size / 2**20:.1f} MiB of JSON")
        print(f"memory: {resident_mib() - before:.0f} MiB more")
        if given.chromium:
            print(f"in a browser: {_first_rows(run, given.chromium):.2f} s until rows are shown")


def _first_rows(run: RecordedRun, chromium: str) -> float:
    from playwright.sync_api import sync_playwright

    opened = socket.create_server((HOST, 0))
    server = uvicorn.Server(uvicorn.Config(create_app([run]), log_level="warning"))
    serving = Thread(target=server.run, kwargs={"sockets": [opened]}, daemon=True)
    serving.start()
    flags = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking"]
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=flags)
        page = browser.new_page()
        started = time.perf_counter()
        page.goto(f"http://{HOST}:{opened.getsockname()[1]}/")
        page.wait_for_selector(".list .pip")
        seconds = time.perf_counter() - started
        browser.close()
    server.should_exit = True
    serving.join()
    return seconds


if __name__ == "__main__":
    main()
