"""Reads rollouts that verl, verl-agent and SkyRL dump as JSON lines.

Each line needs ``uid``, ``traj_uid`` and ``trca``, an annotation of `trca.interop.credit.annotate`
or a list of them. docs/interop.md explains how to dump them; the dumps have none by default.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from trca.interop.credit import COLUMN, rollouts_of, steps_of
from trca.interop.splits import read_rows
from trca.records import Rollout

_KEYS: Final = ("uid", "traj_uid", COLUMN)
_READ: Final = ("step", "reward", "context", "observation")
_SOURCES: Final = {
    "input_prompt": (
        "SkyRL's evaluation",
        "train with trca.interop.skyrl.crediting and trainer.dump_data_batch=true",
    ),
    "input": (
        "verl",
        "return trca.interop.dumps.dumped(data) as reward_extra_info of the reward manager",
    ),
}
"""Key of a line -> the writer of the dump, and how to dump the missing keys."""


def dump_files(dump: Path) -> dict[int, Path]:
    """The files of a dump by training step.

    Args:
        dump: A file, or the folder of the files. The first number in a name is the step.

    Raises:
        ValueError: Without a file, and for two files of a step.
    """
    paths = sorted(dump.glob("*.jsonl")) if dump.is_dir() else [dump]
    files: dict[int, Path] = {}
    for path in paths:
        number = re.search(r"\d+", path.stem)
        step = int(number.group()) if number else 1
        if step in files:
            raise ValueError(f"{files[step]} and {path} are both of step {step}: name one file")
        files[step] = path
    if not files:
        raise ValueError(f"{dump} has no .jsonl file: set trainer.rollout_data_dir to a folder")
    return dict(sorted(files.items()))


def read_dump(path: Path, operators: Sequence[str] = ()) -> tuple[list[Rollout], list[str]]:
    """The rollouts of a file of a dump.

    Args:
        path: The file.
        operators: Ids of the operators that made the judgments, in library order.

    Returns:
        The rollouts without tokens, and the prompt of each of their steps; blank if not dumped.

    Raises:
        ValueError: If a line lacks a key that credit rules read. The message names the keys and how
            to dump them.
    """
    lines = read_rows(path)
    places = [f"{path}, line {number}" for number in range(1, len(lines) + 1)]
    rows = [_annotations(*line, len(operators)) for line in zip(lines, places, strict=True)]
    uids, rollouts = ([str(line[key]) for line in lines] for key in _KEYS[:2])
    played, steps = rollouts_of(uids, rollouts, rows)
    prompts = {
        step: str(n.get("input", "")) for n, of in zip(lines, steps, strict=True) for step in of
    }
    for rollout in played:
        rollout.operators = tuple(operators)
    return played, [prompts[step] for step in sorted(prompts)]


def dumped(data: Any) -> dict[str, list[Any]]:
    """The columns of a batch of verl that a dump needs, for ``reward_extra_info``.

    Args:
        data: A ``DataProto`` with a row per step.
    """
    return {key: list(data.non_tensor_batch[key]) for key in _KEYS}


def _annotations(line: Mapping[str, Any], where: str, operators: int) -> list[Mapping[str, Any]]:
    missing = [key for key in _KEYS if line.get(key) is None]
    if missing:
        writer, mend = next(
            (source for key, source in _SOURCES.items() if key in line),
            ("another trainer", "write them in each line"),
        )
        raise ValueError(
            f"{where}: this dump of {writer} lacks {', '.join(missing)}, which credit rules read:"
            f" {mend}"
        )
    steps = steps_of(line[COLUMN], where)
    output = {"response": str(line["output"])} if "output" in line and len(steps) == 1 else {}
    for annotation in steps:
        if lacks := [key for key in _READ if annotation.get(key) is None]:
            raise ValueError(
                f"{where}: the annotation lacks {', '.join(lacks)}: write annotations with"
                " trca.interop.credit.annotate"
            )
        if (count := len(annotation.get("judgments") or ())) != operators:
            raise ValueError(
                f"{where}: {count} judgments, and the library has {operators} operators: name the"
                " config of the environment"
            )
    return [{**output, **annotation} for annotation in steps]
