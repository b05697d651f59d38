"""SmolLM2-135M learns from rewards: TRCA, GRPO and GiGPO from one imitation start per panel.

    python benchmarks/smollm2.py --panels 71 72 --docs
    python benchmarks/smollm2.py --panels 72 73 --set env_config.max_steps=10 --section short
    python benchmarks/smollm2.py --panels 81 82 --device cuda --side-by-side 10 --section gpu
    python benchmarks/smollm2.py --panels 91 --rows TRCA GRPO --games official --section official

A panel is a generator seed, and the seed of the runs; with ``--games official`` all panels have the
official games, and differ in the seed. Other games need another ``--output``. For each panel
``trca train imitate`` makes a start, and each row trains from this start with ``embedded/smollm2``.
Two further rows train the start with as many episodes and no rewards: *Imitation* imitates the
demonstrator further, and *DAgger* imitates the demonstrator's labels of the policy's own states.
``trca evaluate`` measures the start itself on the same held-out tasks. ``--set`` changes the tasks
of every row and of every evaluation, but not the imitation that makes the start, which ``--start``
changes.

The benchmark needs ``trca data smollm2`` and vLLM. Every process has one thread, and
``--side-by-side`` runs work at the same time. With ``--device cuda`` all runs share one GPU, and
the engine is ``transformers``, which leaves room for the other runs. A repeated command skips
finished runs and resumes interrupted runs. With ``--docs`` the curves go to
``benchmarks/results/smollm2``.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from comparison import (
    RESULTS,
    ROOT,
    Curves,
    Job,
    Rows,
    command_line,
    digest,
    into_docs,
    origin,
    run_all,
    table,
)

from trca.cli.show.figures import draw_comparison
from trca.common.files import write_text
from trca.common.markdown import markdown_table
from trca.policies.weight_files import weights_hash

CONFIG: Final = "embedded/smollm2"
GAMES: Final = "small-{}"
"""Games of a panel, from its generator seed."""
ALGORITHMS: Final = ("TRCA", "GRPO", "GiGPO")
HELD_OUT: Final = 64
"""Held-out tasks of every evaluation, one episode each; fewer if the split has fewer."""
_SAME_EPISODES: Final = (
    *("iterations=20", "tasks_per_iteration=32", "minibatch_size=64", "micro_batch_tokens=2048"),
    *("lr=4e-4", "lora_rank=16", "evaluation_interval=10"),
)
"""Settings of imitation with the episodes, adapter and mini-batches of `CONFIG`."""
IMITATIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "Imitation": ("demonstrations=demonstrator", *_SAME_EPISODES),
    "DAgger": ("demonstrations=on_policy", "engine=vllm", *_SAME_EPISODES),
}
"""Rows without rewards, and their settings."""
DEVICES: Final[Mapping[str, tuple[str, ...]]] = {
    "cpu": (),
    "cuda": ("num_gpus_per_learner=1", "num_gpus_per_env_runner=1", "engine=transformers"),
}
"""Settings of every process on a device. Learner and engine are in one process."""


class RunFromStart(Job):
    """A run that begins with the start of its panel; its first extra assignment has the games."""

    @property
    def settings(self) -> list[str]:
        """Assignments ``key=value`` that change the config."""
        return [
            f"seed={self.panel}",
            self.extra[0].format(self.panel),
            f"evaluation_tasks={HELD_OUT}",
            *self.extra[1:],
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


class Starts:
    """The starts of the panels: hash of the weights, and success on the held-out tasks.

    Args:
        path: JSON file with the starts measured so far, created with the first start.
        folder: Folder of the models.
        games: The assignment of the games of a panel.
        changed: Assignments ``key=value`` for the held-out tasks.
        imitation: Assignments ``key=value`` for imitation.
    """

    def __init__(
        self,
        path: Path,
        folder: Path,
        games: str,
        changed: Sequence[str],
        imitation: Sequence[str],
    ) -> None:
        self._path, self._folder = path, folder
        self._games, self._changed, self._imitation = games, changed, imitation
        self._stored: dict[str, dict[str, Any]] = (
            json.loads(path.read_text("utf-8")) if path.exists() else {}
        )

    def __getitem__(self, panel: int) -> dict[str, Any]:
        """Returns ``weights``, ``won`` and ``played``, and measures a start that is not stored."""
        tasks = (self._games.format(panel), *self._changed)
        key = " ".join((str(panel), *tasks))
        if key not in self._stored:
            self.make(panel)
            self._stored[key] = evaluate_start(self._folder, panel, tasks)
            write_text(self._path, json.dumps(self._stored, indent=1) + "\n")
        return self._stored[key]

    def make(self, panel: int) -> None:
        """Imitates and exports the start of a panel, unless the folder has the model.

        Raises:
            SystemExit: If the weights differ from the weights of a stored start.
        """
        start = start_folder(self._folder, panel)
        if not (start / "model.safetensors").exists():
            run = self._folder / f"imitation-panel{panel}"
            games = self._games.format(panel)
            settings = (f"seed={panel}", games, "torch_threads=1", *self._imitation)
            trca(
                *("train", "imitate", "--name", run.name, "--storage-path", str(self._folder)),
                *(part for each in settings for part in ("--set", each)),
                *("--set", "evaluation_tasks=1"),  # the start itself is evaluated on all tasks
                "--auto-resume",
            )
            trca("export", str(run), "--to", str(start))
        same = [str(panel), self._games.format(panel)]
        stored = {each["weights"] for key, each in self._stored.items() if key.split()[:2] == same}
        if stored - {weights_hash(str(start))}:
            raise SystemExit(
                f"{start} has other weights than the start of the stored curves of panel {panel}:"
                " train all rows of this panel on one machine"
            )


def evaluate_start(folder: Path, panel: int, tasks: Sequence[str]) -> dict[str, Any]:
    """Returns the hash of a start's weights, and its won and played held-out tasks."""
    path = folder / f"start-panel{panel}-held-out{digest(tasks)[:8]}"
    if not list(path.glob("*.json")):
        settings = (f"seed={panel}", "torch_threads=1", *tasks)
        trca(
            *("evaluate", str(start_folder(folder, panel)), "--config", CONFIG),
            *("--tasks", str(HELD_OUT), "--output", str(path)),
            *(part for each in settings for part in ("--set", each)),
        )
    (file,) = path.glob("*.json")
    report = json.loads(file.read_text("utf-8"))
    won = [bool(each["won"]) for each in report["outcomes"]]
    return {"weights": report["weights"], "won": sum(won), "played": len(won)}


def trca(*words: str) -> None:
    """Runs a command of the package with one thread.

    Raises:
        SystemExit: If the command fails.
    """
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    command = [sys.executable, "-m", "trca", *words]
    if subprocess.run(command, cwd=ROOT, env={**os.environ, **threads}).returncode:
        raise SystemExit(f"failed: trca {' '.join(words)}")


def held_out(rows: Rows) -> float:
    """Returns the success of the last evaluation of a run."""
    return float(rows[-1]["evaluation/success_rate"])


def with_starts(
    starts: Mapping[int, Mapping[str, Any]], runs: Mapping[str, Sequence[Rows]]
) -> dict[str, list[Rows]]:
    """Returns the rows with the start's held-out success before the first trajectory.

    The training success of *Imitation* is left out: it is the demonstrator's.
    """
    first = [
        {"trajectories": 0, "evaluation/success_rate": each["won"] / each["played"]}
        for each in starts.values()
    ]
    runs = {
        name: [[{**row, "success_rate": None} for row in rows] for rows in each]
        if name == "Imitation"
        else each
        for name, each in runs.items()
    }
    return {
        name: [[start, *rows] for start, rows in zip(first, each, strict=True)]
        for name, each in runs.items()
    }


def held_out_table(
    starts: Mapping[int, Mapping[str, Any]], runs: Mapping[str, Sequence[Rows]]
) -> str:
    """Returns held-out success by row and panel."""
    lines = [["start", *(f"{each['won'] / each['played']:.1%}" for each in starts.values())]]
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
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of every row"
    )
    parser.add_argument(
        "--start", action="append", default=[], metavar="KEY=VALUE", help="a setting of imitation"
    )
    parser.add_argument(
        "--games", default=GAMES, help="games of every panel, with {} for its seed [%(default)s]"
    )
    parser.add_argument(
        "--section", default="smollm2", help="section of docs/results*.md, and name of the image"
    )
    parser.add_argument("--side-by-side", type=int, default=2, help="runs at a time")
    parser.add_argument("--output", type=Path, default=ROOT / "outputs" / "smollm2")
    parser.add_argument(
        "--docs",
        action="store_true",
        help="write docs/results_smollm2.md and benchmarks/results/smollm2",
    )
    parser.add_argument("--device", choices=DEVICES, default="cpu", help="device of all runs")
    arguments = parser.parse_args()
    if not set(arguments.rows) & set(ALGORITHMS):
        parser.error(f"--rows needs one of {', '.join(ALGORITHMS)}, for tables and figure")
    folder, device = arguments.output.resolve(), DEVICES[arguments.device]
    changed = (*arguments.set, *device)
    results = RESULTS / "smollm2" if arguments.docs else folder
    for each in (folder, results):
        each.mkdir(parents=True, exist_ok=True)
    games = f"env_config.games={arguments.games}"
    imitation = (*arguments.start, *device)
    stored = Starts(results / "starts.json", folder, games, changed, imitation)
    curves = Curves(results / "runs.jsonl")
    jobs = {
        name: [
            RunFromStart(
                "imitate", "Imitation", (), panel, folder, (games, *IMITATIONS[name], *changed)
            )
            if name in IMITATIONS
            else RunFromStart(CONFIG, name, (), panel, folder, (games, *changed))
            for panel in arguments.panels
        ]
        for name in arguments.rows
    }
    every = [job for of_panel in zip(*jobs.values(), strict=True) for job in of_panel]
    with ThreadPoolExecutor(arguments.side_by_side) as pool:
        list(pool.map(stored.make, sorted({job.panel for job in every if job not in curves})))
    starts = {panel: stored[panel] for panel in arguments.panels}  # before a run is stored
    run_all(every, arguments.side_by_side, curves)
    runs = {name: [curves.rows(job) for job in each] for name, each in jobs.items()}
    rewarded = {name: each for name, each in runs.items() if name in ALGORITHMS}
    panels = ", ".join(f"{panel} ({each['weights'][:12]})" for panel, each in starts.items())
    text = (
        f"{command_line()}{held_out_table(starts, runs)}\n{table(rewarded)}\n"
        f"{origin(every, curves)}\nStarts (panel, hash of the weights): {panels}.\n"
    )
    print(text)
    write_text(folder / f"{arguments.section}.md", text)
    kind = "generated" if arguments.games == GAMES else arguments.games
    title = f"SmolLM2-135M learns household tasks, on {kind} ALFWorld games"
    played = max(each["played"] for each in starts.values())
    about = f"seed {', '.join(map(str, arguments.panels))}; held out: {played} tasks"
    of_env = [word.removeprefix("env_config.") for word in arguments.set if "env_config." in word]
    about = "; ".join([about, *of_env])
    image = (ROOT / "docs" / "images" if arguments.docs else folder) / f"{arguments.section}.png"
    draw_comparison(with_starts(starts, runs), image, title, about)
    if arguments.docs:
        picture = f"\n![Success of {', '.join(runs)} over trajectories](images/{image.name})\n"
        into_docs(arguments.section, text + picture)


if __name__ == "__main__":
    main()
