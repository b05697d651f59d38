"""Rollouts of verl, verl-agent and SkyRL as JSON lines, for ``trca import-dump``.

Each line has ``uid``, ``traj_uid`` and ``trca``, an annotation of `trca_interop.credit.annotate` or
a list of them. The dumps that these trainers write themselves lack these keys;
docs/interop_credit.md explains how to write them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from trca.common.files import write_text
from trca.records import Rollout
from trca_interop.credit import COLUMN, rollouts_of, steps_of
from trca_interop.splits import numbered_rows

_PREFIX: Final = "trca_"
"""Beginning of the names of `next_file`."""
_KEYS: Final = ("uid", "traj_uid", COLUMN)
_READ: Final = (
    *("step", "reward", "observation", "context", "next_context"),
    *("parsed", "accepted", "truncated", "won"),
)
_SOURCES: Final = {
    "input_prompt": (
        "SkyRL's evaluation",
        "train with trca_interop.skyrl.with_credit and trainer.dump_data_batch=true",
    ),
    "input": (
        "verl",
        "dump with the argument dump of trca_interop.verl.register",
    ),
}
"""Key of a line -> the writer of the dump, and how to dump the missing keys."""


def dump_files(dump: Path) -> dict[int, Path]:
    """The files of a dump by training step.

    Args:
        dump: A file, or the folder of the files. The first number in a name is the step. Files
            ``trca_*.jsonl`` leave out all others, such as verl's own dumps.

    Raises:
        FileNotFoundError: If there is no such file or folder.
        ValueError: Without a file, and for two files of a step.
    """
    if not dump.exists():
        raise FileNotFoundError(f"{dump}: there is no such file or folder")
    paths = [dump]
    if dump.is_dir():
        paths = sorted(dump.glob(f"{_PREFIX}*.jsonl")) or sorted(dump.glob("*.jsonl"))
    files: dict[int, Path] = {}
    for path in paths:
        number = re.search(r"\d+", path.stem)
        step = int(number.group()) if number else 1
        if step in files:
            raise ValueError(f"{files[step]} and {path} are both of step {step}: name one file")
        files[step] = path
    if not files:
        raise ValueError(
            f"{dump} has no .jsonl file: docs/interop_credit.md tells how trainers dump"
        )
    return dict(sorted(files.items()))


def next_file(folder: Path) -> Path:
    """The file of the next training step, ``trca_1.jsonl`` in an empty folder."""
    names = (re.fullmatch(rf"{_PREFIX}(\d+)", path.stem) for path in folder.glob("*.jsonl"))
    step = 1 + max((int(name[1]) for name in names if name), default=0)
    return folder / f"{_PREFIX}{step}.jsonl"


def read_dump(path: Path, operators: Sequence[str] = ()) -> tuple[list[Rollout], list[str]]:
    """The rollouts of a file of a dump.

    Args:
        path: The file.
        operators: Ids of the operators that made the judgments, in library order.

    Returns:
        The rollouts without tokens, and the prompt of each of their steps; empty if not dumped.

    Raises:
        ValueError: If the file has no steps, or a line lacks a key that credit rules read or has a
            wrong value. The message names the line, and how to dump missing keys.
    """
    numbered = numbered_rows(path)
    rows = [
        _annotations(line, f"{path}, line {number}", len(operators)) for number, line in numbered
    ]
    if not any(rows):
        raise ValueError(f"{path} has no steps: is this the file of a dump?")
    lines = [line for _, line in numbered]
    groups, ids = ([str(line[key]) for line in lines] for key in _KEYS[:2])
    rollouts, steps = rollouts_of(groups, ids, rows, judged=bool(operators))
    prompts = {
        step: str(line.get("input", ""))
        for line, of_line in zip(lines, steps, strict=True)
        for step in of_line
    }
    for rollout in rollouts:
        rollout.operators = tuple(operators)
    return rollouts, [prompts[step] for step in sorted(prompts)]


def write_dump(
    path: Path,
    groups: Iterable[Hashable],
    rollouts: Iterable[Hashable],
    annotations: Iterable[Any],
) -> None:
    """Writes the rows of a batch as a file that `read_dump` reads.

    Args:
        path: The file, with the number of the training step in its name.
        groups: B ids of the rollout groups.
        rollouts: B ids of the rollouts.
        annotations: B annotations; a row with `None` is left out.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = zip(groups, rollouts, annotations, strict=True)
    lines = [
        dict(zip(_KEYS, (str(group), str(rollout), annotation), strict=True))
        for group, rollout, annotation in rows
        if annotation is not None
    ]
    write_text(path, "".join(json.dumps(line, default=_listed) + "\n" for line in lines))


def _listed(value: Any) -> Any:
    """A NumPy number or array as a number or a list, and another collection as a list."""
    return value.tolist() if isinstance(value, np.generic | np.ndarray) else list(value)


def _annotations(line: Mapping[str, Any], where: str, operators: int) -> list[Mapping[str, Any]]:
    missing = [key for key in _KEYS if line.get(key) is None]
    if missing:
        writer, fix = next(
            (source for key, source in _SOURCES.items() if key in line),
            ("another trainer", "write them in each line"),
        )
        raise ValueError(
            f"{where}: this dump of {writer} lacks {', '.join(missing)}, which credit rules read:"
            f" {fix}"
        )
    try:
        json.dumps(line, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = error.object[error.start]
        raise ValueError(f"{where}: a text has {half!r}, which is no character") from None
    steps = steps_of(line[COLUMN], _READ, operators, where)
    output = {"response": str(line["output"])} if "output" in line and len(steps) == 1 else {}
    return [{**output, **annotation} for annotation in steps]
