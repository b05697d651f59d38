"""SmolLM2-135M learns from rewards: TRCA, GRPO and GiGPO from one imitation start per panel.

    python benchmarks/smollm2.py --panels 71 72 --docs

A panel is a generator seed, and the seed of the runs. For each panel ``trca train imitate`` makes a
start, and each row trains from this start with ``embedded/smollm2``. Two further rows train the
start with as many episodes and no rewards: *Imitation* imitates the demonstrator further, and
*DAgger* imitates the demonstrator's labels of the policy's own states. ``trca evaluate`` measures
the start itself on the same held-out tasks.

The benchmark needs ``trca data smollm2`` and vLLM. Every process has one thread, and
``--side-by-side`` runs work at the same time. A repeated command skips finished runs and resumes
interrupted runs. With ``--docs`` the curves go to ``benchmarks/results/smollm2``.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from comparison import (
    RESULTS,
    ROOT,
    Curves,
    Job,
    Rows,
    command_line,
    into_docs,
    origin,
    run_all,
    table,
)

from trca.cli.show.figures import draw_comparison
from trca.common.files import write_text
from trca.common.markdown import markdown_table

CONFIG: Final = "embedded/smollm2"
PANEL: Final = "env_config.games=small-{}"
ALGORITHMS: Final = ("TRCA", "GRPO", "GiGPO")
HELD_OUT: Final = 64
"""Held-out tasks of every evaluation, one episode each."""
_SAME_EPISODES: Final = (
    *("iterations=20", "tasks_per_iteration=32", "minibatch_size=64", "micro_batch_tokens=4096"),
    *("lr=4e-4", "lora_rank=16", "dtype=bfloat16", "evaluation_interval=10"),
)
"""Settings of imitation with the episodes, adapter and mini-batches of `CONFIG`."""
IMITATIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "Imitation": ("demonstrations=demonstrator", *_SAME_EPISODES),
    "DAgger": ("demonstrations=on_policy", "engine=vllm", *_SAME_EPISODES),
}
"""Rows without rewards, and their settings."""


class RunFromStart(Job):
    """A run that begins with the start of its panel."""

    @property
    def settings(self) -> list[str]:
        """Assignments ``key=value`` that change the config."""
        return [
            f"seed={self.panel}",
            PANEL.format(self.panel),
            f"evaluation_tasks={HELD_OUT}",
            *self.extra,
        ]

    def command(self) -> list[str]:
        """Returns the command that starts or resumes the run."""
        command = [*super().command()]
        if "--resume" not in command:
            command += ["--set", "torch_threads=1", "--set", "checkpoint_interval=2"]
            command += ["--model", str(start_folder(self.folder, self.panel))]
        return command


def start_folder(folder: Path, panel: int) -> Path:
    """Returns the folder of a panel's start."""
    return folder / f"start-panel{panel}"


def make_start(folder: Path, panel: int) -> str:
    """Imitates and exports unless the start exists; returns the SHA-256 of the weights."""
    start = start_folder(folder, panel)
    if not (start / "model.safetensors").exists():
        run = folder / f"imitation-panel{panel}"
        settings = (f"seed={panel}", PANEL.format(panel), "torch_threads=1")
        trca(
            *("train", "imitate", "--name", run.name, "--storage-path", str(folder)),
            *(part for each in settings for part in ("--set", each)),
        )
        trca("export", str(run), "--to", str(start))
    return hashlib.sha256((start / "model.safetensors").read_bytes()).hexdigest()


def evaluate_start(folder: Path, panel: int) -> tuple[int, int]:
    """Returns the held-out tasks that the start of a panel wins, and the tasks played."""
    path = folder / f"start-panel{panel}-held-out"
    if not list(path.glob("**/*.json")):
        settings = (f"seed={panel}", PANEL.format(panel), "torch_threads=1")
        trca(
            *("evaluate", str(start_folder(folder, panel)), "--config", CONFIG),
            *("--tasks", str(HELD_OUT), "--output", str(path)),
            *(part for each in settings for part in ("--set", each)),
        )
    (report,) = path.glob("**/*.json")
    success: dict[str, Any] = json.loads(report.read_text())["all"]
    return round(success["success_rate"] * success["n"]), success["n"]


def trca(*words: str) -> None:
    """Runs a command of the package with one thread.

    Raises:
        SystemExit: If the command fails.
    """
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    command = [sys.executable, "-m", "trca.cli", *words]
    if subprocess.run(command, cwd=ROOT, env={**os.environ, **threads}).returncode:
        raise SystemExit(f"failed: trca {' '.join(words)}")


def held_out(rows: Rows) -> float:
    """Returns the success of the last evaluation of a run."""
    return float(rows[-1]["evaluation/success_rate"])


def held_out_table(
    starts: Mapping[int, tuple[int, int]], runs: Mapping[str, Sequence[Rows]]
) -> str:
    """Returns held-out success by row and panel."""
    lines = [["start", *(f"{won / played:.1%}" for won, played in starts.values())]]
    lines += [[name, *(f"{held_out(rows):.1%}" for rows in each)] for name, each in runs.items()]
    return markdown_table(["held out", *(f"panel {panel}" for panel in starts)], lines)


def main() -> None:
    """Makes the starts, trains the rows, and writes tables and the figure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--panels", type=int, nargs="+", required=True, help="generator seeds")
    rows = [*ALGORITHMS, *IMITATIONS]
    parser.add_argument("--rows", nargs="+", choices=rows, default=rows)
    parser.add_argument("--side-by-side", type=int, default=2, help="runs at a time")
    parser.add_argument("--output", type=Path, default=ROOT / "outputs" / "smollm2")
    parser.add_argument(
        "--docs", action="store_true", help="write docs/results.md and benchmarks/results/smollm2"
    )
    arguments = parser.parse_args()
    folder = arguments.output.resolve()
    results = RESULTS / "smollm2" if arguments.docs else folder
    for each in (folder, results):
        each.mkdir(parents=True, exist_ok=True)
    hashes = {panel: make_start(folder, panel) for panel in arguments.panels}
    curves = Curves(results / "runs.jsonl")
    jobs = {
        name: [
            RunFromStart("imitate", "Imitation", (), panel, folder, IMITATIONS[name])
            if name in IMITATIONS
            else RunFromStart(CONFIG, name, (), panel, folder)
            for panel in arguments.panels
        ]
        for name in arguments.rows
    }
    every = [job for of_panel in zip(*jobs.values(), strict=True) for job in of_panel]
    run_all(every, arguments.side_by_side, curves)
    starts = {panel: evaluate_start(folder, panel) for panel in arguments.panels}
    runs = {name: [curves.rows(job) for job in each] for name, each in jobs.items()}
    rewarded = {name: each for name, each in runs.items() if name in ALGORITHMS}
    panels = ", ".join(f"{panel} ({digest[:12]})" for panel, digest in hashes.items())
    text = (
        f"{command_line()}{held_out_table(starts, runs)}\n{table(rewarded)}\n"
        f"{origin(every, curves)}\nStarts (panel, SHA-256 of the weights): {panels}.\n"
    )
    print(text)
    write_text(folder / "smollm2.md", text)
    title = f"SmolLM2-135M on generated ALFWorld games: {len(arguments.panels)} panels"
    about = f"panels (generator seeds) {', '.join(map(str, arguments.panels))}"
    image = (ROOT / "docs" / "images" if arguments.docs else folder) / "smollm2.png"
    draw_comparison(rewarded, image, title, about)
    if arguments.docs:
        picture = f"\n![Success of {', '.join(rewarded)} over trajectories](images/smollm2.png)\n"
        into_docs("smollm2", text + picture)


if __name__ == "__main__":
    main()
