"""Seven users try the commands: what each user types, and what each command answers.

::

    python benchmarks/tours.py                      all tours and the times, in tours.md
    python benchmarks/tours.py own_game careless    replaces the sections of two tours
    python benchmarks/tours.py --folder /tmp/tours  keeps the files of the tours in this folder

A tour is a few commands with small settings: a shrunk random model or a tiny policy, three steps
an episode, one or two iterations. Each tour has a separate folder. A command shows its first and
last lines. Paths of this machine become ``~``, addresses of the web become ``URL``.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from refusals import measure

RESULT: Final = Path(__file__).parent / "results" / "tours.md"
HEAD: Final = "# Seven tours\n\n`python benchmarks/tours.py` writes this file.\n"
TIMES: Final = "times"
"""Name of the section with CPU seconds."""
SHRUNK: Final = "shrunk:Qwen/Qwen2.5-1.5B-Instruct"
"""A small random model with the tokenizer, chat template and layers of Qwen2.5."""
SHORT: Final = (
    "--set tasks_per_iteration=2 --set group_size=2 --set env_config.max_steps=3"
    " --set max_new_tokens=8 --set evaluation_tasks=2 --set num_env_runners=0 --set num_learners=0"
)
"""Settings of a run of seconds."""
TIMED: Final = (
    "--help",
    "train --help",
    "evaluate --help",
    "sweep --help",
    "train quikstart",
    "train --set lrr=1",
    "train --set lr=-1",
    "train --name q",
    "train --model ./nothing",
    "inspect nothing",
    "sweep nope",
    "jobs list",
)
"""Refusals and helps whose CPU seconds the result has."""

TUNE = """
from pathlib import Path

from ray import tune
from trca.algorithms import TRCAConfig

config = TRCAConfig.from_preset("quickstart").update_from_dict(
    {"iterations": 1, "tasks_per_iteration": 2, "group_size": 2, "evaluation_tasks": 2,
     "env_config": {"games": "small", "max_steps": 3}, "num_env_runners": 0, "num_learners": 0,
     "lambda_": tune.grid_search([0.2, 0.8])}
)
folder = str(Path("results").resolve())
run_config = tune.RunConfig(verbose=0, storage_path=folder, name="two")
results = tune.Tuner("TRCA", param_space=config, run_config=run_config).fit()
print("errors:", len(results.errors))
print("lambda_ of the trials:", sorted(result.config["lambda_"] for result in results))
print("keys with lambda:", sorted(key for key in results[0].config if "lambda" in key))
"""

VECTOR = """
import gymnasium

make = dict(games="small", split="train", max_steps=3)
envs = gymnasium.make_vec("trca.envs:trca/ALFWorld-v0", 2, vectorization_mode="sync", **make)
print(envs.single_observation_space)
observations, infos = envs.reset(seed=0)
for step in range(5):
    *_, infos = envs.step(["look", "go to fridge 1"])
    print(step, "rubric" in infos)
gymnasium.make("trca.envs:trca/ALFWorld-v0", game="small")
"""

GAME = '''
"""A coin, with parts that users forget or break."""
import ctypes

from trca.envs import Outcome, TextEnv


class Coin(TextEnv):
    task_ids = ("heads", "tails")
    tiny_policy = {"hidden_size": 32, "layers": 1, "stages": ((0.5, 3),)}

    @property
    def instruction(self):
        return f"show {self.goal} and stop."

    @property
    def admissible_actions(self):
        return ["turn", "stop"]

    def start_task(self, task_id, options):
        self.goal, self.side = task_id, "heads"
        return self.side

    def take_action(self, action):
        if action == "turn":
            self.side = "tails" if self.side == "heads" else "heads"
        won = action == "stop" and self.side == self.goal
        return Outcome(self.side, reward=float(won), terminated=action == "stop")


class Loser(Coin):
    """The demonstrator never wins."""

    def demonstrator_action(self):
        return "turn"


class Broken(Coin):
    """Raises at each action but one."""

    def take_action(self, action):
        if action != "stop":
            return {}["heads"]
        return super().take_action(action)


class Native(Coin):
    """A library in C: a control character crashes the process."""

    def take_action(self, action):
        if any(ord(letter) < 32 for letter in action):
            ctypes.string_at(0)
        return super().take_action(action)


class Crash(Coin):
    """A library in C that crashes when the coin turns, in a child process."""

    isolation = "process"

    def take_action(self, action):
        if action == "turn":
            ctypes.string_at(0)
        return super().take_action(action)
'''

RULE = '''
"""Credit rules of a user."""


def outcome(batch):
    return batch.reward - batch.reward.mean()


def asks(batch, weight):
    return weight * batch.reward


def breaks(batch):
    raise ValueError("no credit today")
'''


class Tour:
    """Runs the commands of a user in a folder, and keeps the output as Markdown.

    Attributes:
        folder: The working directory of the commands.
        lines: The output.
    """

    def __init__(self, folder: Path) -> None:
        """Makes the folder."""
        self.folder = folder
        self.lines: list[str] = []
        folder.mkdir(parents=True)

    def file(self, name: str, text: str) -> None:
        """Writes a file of the user."""
        (self.folder / name).write_text(text.lstrip())

    def run(self, command: str, head: int = 6, tail: int = 6) -> None:
        """Runs a command of the shell.

        Args:
            command: The command.
            head: The first lines of the output that are kept.
            tail: The last lines of the output that are kept.
        """
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment(),
        )
        output = self.cleaned(done.stdout.decode(errors="replace"))
        left_out = len(output) - head - tail
        if left_out > 1:
            output[head : len(output) - tail] = [f"... {left_out} lines ..."]
        end = [f"(exit {done.returncode})"] if done.returncode else []
        self.lines += [f"$ {self.cleaned(command)[0]}", *output, *end, ""]

    def cleaned(self, text: str) -> list[str]:
        """The lines of an output without colours, blank lines and paths of this machine."""
        text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
        places = {str(self.folder): "~", str(Path(__file__).parents[1]): "CHECKOUT"}
        for path, name in places.items():
            text = text.replace(path, name)
        text = re.sub(r"/\S*/site-packages/", "", text)
        text = re.sub(r"https?://(?!head:)\S*[\w/]", "URL", text)
        return [line.rstrip() for line in text.splitlines() if line.strip()] or [""]


def environment() -> dict[str, str]:
    """The environment of the commands: no network, one thread, lines of 100 characters."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {
        **os.environ,
        "PATH": path,
        "COLUMNS": "100",
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "PYTHONWARNINGS": "ignore",
    }


def tune(tour: Tour) -> None:
    """An RLlib and Tune user: a grid of two trials; each command takes a trial."""
    tour.file("grid.py", TUNE)
    tour.run("python grid.py 2>&1 | tee grid.log | tail -3; wc -l < grid.log")
    tour.run("ln -s results/two/TRCA_*lambda=0.2* trial && ls trial/")
    tour.run("trca inspect trial", 4, 3)
    tour.run("trca view trial --export trial.html")
    tour.run("trca diagnose trial", 9, 5)
    tour.run("trca evaluate trial --tasks 2", 4, 8)
    tour.file("vector.py", VECTOR)
    tour.run("python vector.py", 8, 2)


def own_game(tour: Tour) -> None:
    """The author of a game: a project, its plan, and environments that break."""
    tour.run("trca new-env my_game")
    tour.run("trca play my_game/my_game/env.py:MyGame --check --task 0", 4, 4)
    tour.run("trca plan my_game/train.yaml", 8, 12)
    tour.file("coin.py", GAME)
    tour.run("trca play coin.py:Coin --check", 4, 4)
    tour.run("trca play coin.py:Broken --policy random --seed 1", 4, 4)
    tour.run("trca play coin.py:Broken --check", 4, 4)
    tour.run("trca play coin.py:Native --check", 4, 4)
    tour.run("trca play coin.py:Crash --check", 4, 4)
    base = f"trca train quickstart --algorithm GiGPO --model {SHRUNK} --iterations 1 {SHORT}"
    tour.run(f"{base} --env coin.py:Broken --name broken", 8, 4)
    tour.run("cut -c1-300 outputs/broken/failures.jsonl | tail -2; ls outputs/broken/logs")
    built = f"TRCA_CACHE=cache {base}"  # the cache may have the tiny policy of an earlier tour
    tour.run(f"{built} --env coin.py:Loser --model tiny --name loser", 14, 4)


def own_rule(tour: Tour) -> None:
    """The author of a credit rule: a run, another rule on its rollouts, wrong rules."""
    tour.file("rule.py", RULE)
    train = f"trca train quickstart --iterations 1 {SHORT}"
    tour.run(f"{train} --set credit=rule.py:outcome --name mine", 6, 4)
    tour.run("trca recredit outputs/mine --credit gigpo", 6, 6)
    tour.run("trca recredit outputs/mine --credit gipgo")
    tour.run(f"{train} --set credit=rule.py:asks --name asks")
    tour.run(f"{train} --set credit=rule.py:outcom --name asks")
    tour.run(f"{train} --set credit=rule.py:breaks --name breaks", 4, 6)
    tour.run("trca export outputs/mine --to policy && head -12 policy/README.md", 4, 12)


def own_model(tour: Tour) -> None:
    """The author of a model: an instruct model is evaluated, and learns nothing."""
    tour.run(
        f"trca evaluate {SHRUNK} --tasks 2 --set max_new_tokens=16 --set env_config.max_steps=3",
        10,
        12,
    )
    tour.run(f"trca train quickstart --model {SHRUNK} --iterations 2 {SHORT} --name nothing", 8, 6)
    tour.run("trca diagnose nothing", 9, 5)
    tour.run("trca train quickstart --model ./nothing")
    tour.run("trca train quickstart --model no/such-model")


def cluster(tour: Tour) -> None:
    """A cluster user: a run and a sweep as one job, and another scheduler."""
    tour.run("trca submit paper/alfworld_qwen2.5_1.5b --storage-path s3://bucket/runs --dry-run", 4)
    tour.run("trca submit sweeps/lambda --storage-path /shared/runs --dry-run", 4, 6)
    tour.run("trca submit paper/alfworld_qwen2.5_1.5b --to slurm")
    tour.run("trca submit quickstart --storage-path /shared/runs")
    tour.run("trca jobs list")


def paper_reader(tour: Tour) -> None:
    """A paper reader: a preset, a short run, and what may be compared with the paper."""
    tour.run("trca plan paper/alfworld_qwen2.5_1.5b --gpus 4x80", 10, 12)
    tour.run(f"trca train quickstart --iterations 1 {SHORT} --name one", 4, 4)
    tour.run("trca report outputs/one", 14, 6)
    tour.run("trca compare outputs/one outputs/one")
    tour.run("trca evaluate outputs/one --panel offical-134")


def careless(tour: Tour) -> None:
    """A careless user: words that are wrong, names that exist, a stop."""
    tour.run("trca train quikstart")
    tour.run("trca train --set lrr=1")
    tour.run("trca train --set lr=-1")
    tour.run("trca train --set train_batch_size=100")
    tour.run("trca train --algorithm GRPO --set lambda_=0.5")
    tour.run("trca train --games smal")
    tour.run("trca train --model /nope --dry-run")
    tour.run("trca train --storage-path /proc/runs")
    tour.run("trca train --resume nothing")
    tour.run("mkdir -p outputs/q && touch outputs/q/config.yaml; trca train --name q")
    tour.run("trca sweep nope")
    tour.run("trca sweep sweeps/lambda --dry-run", 8, 4)
    tour.run("trca evaluate outputs/nothing")
    tour.run("trca inspect nothing")
    tour.run("trca rubric show nope")


TOURS: Final[dict[str, Callable[[Tour], None]]] = {
    each.__name__: each
    for each in (tune, own_game, own_rule, own_model, cluster, paper_reader, careless)
}


def take(name: str, folder: Path) -> str:
    """Takes a tour; returns its section.

    Args:
        name: A name of `TOURS`.
        folder: A folder for the files of the tour.
    """
    tour = Tour(folder / name)
    TOURS[name](tour)
    output = "\n".join(tour.lines).rstrip()
    return f"{(TOURS[name].__doc__ or '').strip()}\n\n```\n{output}\n```"


def times(folder: Path) -> str:
    """The table of CPU seconds of refusals and helps, the lower of two runs each."""
    run = folder / "times" / "outputs" / "q"
    run.mkdir(parents=True)
    (run / "config.yaml").write_text("algorithm: TRCA\n")
    lines = ["| command | CPU seconds | imported |", "|---|---:|---|"]
    for command in TIMED:
        runs = [measure(sys.executable, command, folder / "times") for _ in range(2)]
        cpu, imported = min(each[1:] for each in runs)
        lines.append(f"| `trca {command}` | {cpu:.2f} | {imported} |")
    return "\n".join(lines)


def main() -> None:
    """Takes the tours and writes their sections into the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = [*TOURS, TIMES]
    parser.add_argument("tours", nargs="*", metavar="TOUR", help=f"Of {', '.join(names)}.")
    parser.add_argument("--folder", type=Path, help="An empty folder for the files of the tours.")
    arguments = parser.parse_args()
    folder = (arguments.folder or Path(tempfile.mkdtemp(prefix="tours-"))).resolve()
    taken = {
        name: times(folder) if name == TIMES else take(name, folder)
        for name in arguments.tours or names
    }
    written = RESULT.read_text() if RESULT.exists() else ""
    sections = dict(part.split("\n\n", 1) for part in written.split("\n## ")[1:])
    sections |= {name: f"{section}\n" for name, section in taken.items()}
    parts = [f"## {name}\n\n{sections[name]}" for name in names if name in sections]
    RESULT.write_text("\n".join([HEAD, *parts]))


if __name__ == "__main__":
    main()
