"""Records the goldens: what a change that only moves code must leave as it is.

::

    python -m tests.goldens.record                     # writes all goldens of this folder
    python -m tests.goldens.record help settings       # writes some of them
    python -m tests.goldens.record --compare CHECKOUT  # compares with another checkout, exactly

=================  =====================================================================
settings.yaml      all settings of each config; the points and the first trial of each sweep
help.txt           ``--help`` of each command
episodes.json      SHA-256 of what 20 episodes of a random policy show, and the first episode
model              random policy of the toy environment, for the next file
training.json      three iterations of each algorithm: metrics without times and memory
metric_names.json  names of all metrics of an iteration of each algorithm
runs.tar.xz        runs of a trainer, of a sweep and of imitation
=================  =====================================================================

Numbers of `training.json` depend on the rounding of a CPU, so the tests allow relative differences
of 1e-4. ``--compare`` records this checkout and another on the same machine, with this file, and
compares all texts exactly, without `model` and `runs.tar.xz`.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, is_dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import yaml

FOLDER = Path(__file__).parent
ENVIRONMENTS: dict[str, dict[str, Any]] = {
    "ALFWorld": {"env": "trca/ALFWorld-v0"},
    "ALFWorld team": {"env": "trca/ALFWorld-v0", "team": "alfworld_planner"},
    "SearchQA": {"env": "trca/SearchQA-v0"},
    "WebShop": {"env": "trca/WebShop-v0"},
}
SMALL = {
    "tasks_per_iteration": 2,
    "group_size": 2,
    "minibatch_size": 8,
    "lora_rank": 1,
    "evaluation_tasks": 2,
    "evaluation_interval": 2,
    "num_env_runners": 0,
    "num_learners": 0,
}
"""Settings of small runs in one process."""
_VARIES = re.compile(
    "tim(e|ing)|second|memory|throughput|pid|hostname|node_ip|date$|trial_id|mismatch|push_diff"
)
_GOLD = ("IGPO", "StepSearch")
"""Algorithms that read the hidden truth of their training tasks."""


def settings() -> str:
    """All settings of the configs."""
    from trca.algorithms.settings.parameters import TextParameters
    from trca.algorithms.settings.sweeps import SweepSettings
    from trca.tune_configs.files import read, shipped

    resolved: dict[str, Any] = {}
    for name in shipped():
        if name.startswith("sweeps/"):
            sweep = SweepSettings(**read(name))
            points = sweep.every_point()
            first = sweep.trial(points[0], sweep.seeds[0], name, need_data=False)
            pairs = [{"panel": p, "seed": seed} for p in sweep.panels for seed in sweep.seeds]
            resolved[name] = {"points": points, "pairs": pairs, "first": first.flat()}
        else:
            resolved[name] = TextParameters.resolve(read(name), name, need_data=False).flat()
    return yaml.safe_dump(resolved, sort_keys=False, width=100)


def help_texts() -> str:
    """The help of every command, 100 columns wide and without colours."""
    import typer
    from typer.testing import CliRunner

    from trca.cli.app import app

    def commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
        yield path
        for name, command in sorted(getattr(group, "commands", {}).items()):
            yield from commands(command, (*path, name))

    plain = CliRunner(env={"COLUMNS": "100", "TERMINAL_WIDTH": "100", "NO_COLOR": "1"})
    texts = []
    for path in commands(typer.main.get_command(app)):
        shown = plain.invoke(app, [*path, "--help"], prog_name="trca").output
        lines = [line.rstrip() for line in shown.splitlines()]
        texts.append("\n".join([f"$ trca {' '.join(path)} --help", *lines, ""]))
    return "\n".join(texts)


def episodes() -> str:
    """What environments show to a random policy."""
    recorded = {}
    for name, config in ENVIRONMENTS.items():
        played = [list(_episode(config, number)) for number in range(20)]
        texts = [json.dumps(steps, sort_keys=True, default=_plain) for steps in played]
        hashes = [hashlib.sha256(text.encode()).hexdigest() for text in texts]
        recorded[name] = {"sha256": hashes, "first": played[0]}
    return _text(recorded)


def _episode(config: Mapping[str, Any], number: int) -> Iterator[dict[str, Any]]:
    """The steps of an episode of at most 8 actions."""
    from trca.envs import make

    env, rng = make(**config, max_steps=8), np.random.default_rng(number)
    task = env.get_wrapper_attr("task_ids")[number]
    observation, info = env.reset(seed=number, options={"task": task})
    yield {"observation": observation, "info": info}
    ended = False
    while not ended:
        action = str(rng.choice(sorted(info["admissible_actions"]) or ["look"]))
        observation, reward, terminated, truncated, info = env.step(action)
        ended = terminated or truncated
        step = {"action": action, "observation": observation, "reward": float(reward)}
        yield {**step, "terminated": terminated, "truncated": truncated, "info": info}
    env.close()


def trained(name: str) -> list[dict[str, Any]]:
    """The results of three iterations of an algorithm, with flat names."""
    from tests import toy
    from trca.algorithms import ALGORITHMS

    config = ALGORITHMS[name].config_class()
    config.environment(toy.Rooms, env_config={"passages": True, "milestones": True})
    config.debugging(seed=7)
    values: dict[str, Any] = {"model": str(FOLDER / "model"), "template": "compact", "lr": 1e-3}
    values |= {"tasks_per_iteration": 4, "group_size": 4, "max_new_tokens": 8}
    values |= {"train_malformed": True, "minibatch_size": 24, "micro_batch_tokens": 512}
    values |= {"num_env_runners": 0, "num_learners": 0, "gold_in_training": name in _GOLD}
    algorithm = config.update_from_dict(values).build_algo()
    results = [dict(_flat(algorithm.train())) for _ in range(3)]
    algorithm.stop()
    return results


def _flat(result: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Numbers and texts of a nested result, without the config."""
    for key, value in result.items():
        if isinstance(value, Mapping):
            if key not in ("config", "perf"):
                yield from _flat(value, f"{prefix}{key}/")
        elif isinstance(value, (str, bool, int, float, np.number)):
            yield f"{prefix}{key}", value if isinstance(value, (str, bool)) else float(value)


def timeless(row: Mapping[str, Any]) -> dict[str, Any]:
    """The metrics without times, memory, names of the process, and pure rounding."""
    return {name: value for name, value in row.items() if not _VARIES.search(name)}


def write_model(folder: Path) -> None:
    """Writes a random policy of the toy environment."""
    from tests.algorithms.conftest import rooms_model

    rooms_model(folder / "model")


def write_training(folder: Path) -> None:
    """Writes the metrics of all algorithms and the names of the metrics."""
    from trca.algorithms import ALGORITHMS

    results = {name: trained(name) for name in ALGORITHMS}
    rows = {name: [timeless(row) for row in each] for name, each in results.items()}
    (folder / "training.json").write_text(_text(rows))
    names = {name: sorted(each[0]) for name, each in results.items()}
    (folder / "metric_names.json").write_text(_text(names))


def write_runs(folder: Path) -> None:
    """Trains, sweeps and imitates by the commands, into an archive."""
    flags = [f"--set={key}={value}" for key, value in SMALL.items()]
    flags += ["--set=env_config.max_steps=4", "--model=tiny", "--iterations=2"]
    imitated = ["--set=max_new_tokens=24", "--set=group_size=1", "--set=response_format=action"]
    sweep = {
        "base": "quickstart",
        "set": SMALL | {"iterations": 1, "env_config.max_steps": 4},
        "grid": {"algorithm": ["TRCA", "GRPO"]},
        "seeds": [0],
        "side_by_side": 1,
    }
    with TemporaryDirectory() as there:
        runs, path = Path(there) / "runs", Path(there) / "swept.yaml"
        path.write_text(yaml.safe_dump(sweep))
        for command in (
            ["train", "quickstart", *flags, "--name=trained"],
            ["train", "imitate", *flags, *imitated, "--name=imitated"],
            ["sweep", str(path)],
        ):
            trca = [sys.executable, "-m", "trca", *command, f"--storage-path={runs}"]
            subprocess.run(trca, check=True, stdout=subprocess.DEVNULL)
        for file in [*runs.rglob("versions.json"), *runs.rglob("metadata.json")]:
            text = file.read_text().replace(sys.prefix, "/venv")
            file.write_text(text.replace(str(FOLDER.parents[1]), "/checkout"))
        _pack(runs, folder / "runs.tar.xz")


def _pack(runs: Path, path: Path) -> None:
    """Archives runs without pictures, logs and the state of Tune's driver."""
    with tarfile.open(path, "w:xz") as archive:
        for file in sorted(runs.rglob("*")):
            extra = file.suffix == ".png" or {"logs", "tensorboard"} & {*file.parts}
            tune = file.name.startswith(("basic-", "events.", "experiment_", "tuner."))
            if not (extra or tune) and (file.is_symlink() or file.is_file()):
                archive.add(file, file.relative_to(runs).as_posix())


WRITERS = {
    "settings": lambda folder: (folder / "settings.yaml").write_text(settings()),
    "help": lambda folder: (folder / "help.txt").write_text(help_texts()),
    "episodes": lambda folder: (folder / "episodes.json").write_text(episodes()),
    "model": write_model,
    "training": write_training,
    "runs": write_runs,
}


def _text(data: Any) -> str:
    return json.dumps(data, indent=1, default=_plain) + "\n"


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    raise TypeError(f"{value!r} is not JSON")


def _compare(other: str) -> int:
    """Prints the texts that differ from another checkout's; returns their number."""
    with TemporaryDirectory() as here, TemporaryDirectory() as there:
        for root, folder in ((FOLDER.parents[1], here), (Path(other).resolve(), there)):
            names = [name for name in WRITERS if name not in ("model", "runs")]
            command = [sys.executable, __file__, *names, "--to", folder]
            environment = os.environ | {"PYTHONPATH": str(root)}
            subprocess.run(command, check=True, cwd=folder, env=environment)
        return subprocess.run(["diff", "-ru", there, here]).returncode


def main() -> None:
    """Reads the command line."""
    arguments, folder = sys.argv[1:], FOLDER
    if arguments[:1] == ["--compare"]:
        sys.exit(_compare(arguments[1]))
    if "--to" in arguments:
        arguments, folder = arguments[:-2], Path(arguments[-1])
    for name in arguments or WRITERS:
        WRITERS[name](folder)


if __name__ == "__main__":
    main()
