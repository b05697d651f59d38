"""Readers of rollouts that verl, verl-agent and SkyRL dump as JSON lines, one step a line.

============  ======================================================================================
verl          ``trainer.rollout_data_dir``: ``{step}.jsonl`` with ``input``, ``output``, ``score``,
verl-agent    ``step`` and the reward manager's ``reward_extra_info``; `dumped` returns the columns
              that credit rules read.
SkyRL         ``dumped_data/*.jsonl`` of the trainer of `trca.interop.skyrl.crediting`, with
              ``trainer.dump_data_batch``.
============  ======================================================================================

Each line needs ``uid``, ``traj_uid`` and ``trca``, an annotation of `trca.interop.credit.annotate`
or a list. Dumps of these projects have none of the three by default, so groups, rollouts and the
order of steps cannot be read from them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from trca.interop.credit import COLUMN, rollouts_of
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


def read_dump(
    path: Path, operators: Sequence[str] = ()
) -> tuple[list[Rollout], dict[tuple[int, int], list[str]]]:
    """The rollouts of a file of a dump.

    Args:
        path: The file.
        operators: Ids of the operators that made the judgments, in library order.

    Returns:
        The rollouts without tokens, and the prompts of each rollout by group and index; a prompt is
        blank if the dump has none.

    Raises:
        ValueError: If a line lacks a key that credit rules read. The message names the keys and how
            to dump them.
    """
    lines = read_rows(path)
    rows = [_annotations(line, f"{path}, line {n}") for n, line in enumerate(lines, 1)]
    for number, row in enumerate(rows, 1):
        for annotation in row:
            count = len(annotation.get("judgments") or ())
            if count != len(operators):
                raise ValueError(
                    f"{path}, line {number}: {count} judgments, and the library has"
                    f" {len(operators)} operators: name the config of the environment"
                )
    uids, rollouts = ([str(line[key]) for line in lines] for key in _KEYS[:2])
    played, places = rollouts_of(uids, rollouts, rows)
    prompts = [""] * sum(len(rollout.steps) for rollout in played)
    for line, steps in zip(lines, places, strict=True):
        for place in steps:
            prompts[place] = str(line.get("input", ""))
    names = list(dict.fromkeys(uids))
    by_rollout, start = {}, 0
    for rollout in played:
        rollout.task_id = names[rollout.group]
        rollout.operators = tuple(operators)
        rollout.score = sum(step.reward for step in rollout.steps)
        end = start + len(rollout.steps)
        by_rollout[rollout.group, rollout.index] = prompts[start:end]
        start = end
    return played, by_rollout


def dumped(data: Any) -> dict[str, list[Any]]:
    """The columns of a batch of verl that a dump needs, for ``reward_extra_info``.

    Args:
        data: A ``DataProto`` with a row per step.
    """
    return {key: list(data.non_tensor_batch[key]) for key in _KEYS}


def _annotations(line: Mapping[str, Any], where: str) -> list[dict[str, Any]]:
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
    found = line[COLUMN]
    steps = [found] if isinstance(found, dict) else list(found)
    output = {"response": str(line["output"])} if "output" in line and len(steps) == 1 else {}
    for annotation in steps:
        if lacks := [key for key in _READ if annotation.get(key) is None]:
            raise ValueError(
                f"{where}: the annotation lacks {', '.join(lacks)}: write annotations with"
                " trca.interop.credit.annotate"
            )
    return [output | annotation for annotation in steps]
