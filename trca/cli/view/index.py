"""An index of a file of rollouts: where each line lies, and what the list shows of it.

A line of a long rollout has many kilobytes of token ids that the list does not need. So a line is
read at its two ends and at the judgments of its steps, which is several times faster than all of
its JSON. That is safe for any text of a model: in a JSON string a quotation mark follows a
backslash, so ``"judgments":`` is only ever a key.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

_STEP: Final = re.compile(
    rb' ?\[([01, ]*)\], ?"parsed": ?(?:true|false), ?"accepted": ?(?:true|false),'
    rb' ?"foundational": ?([-+.\deE]+), ?"breakthrough": ?([-+.\deE]+)'
)
_BUFFER: Final = 2**20
_STEPS: Final = b'"steps":'
_END: Final = b'"last_observation":'
_JUDGMENTS: Final = b'"judgments":'
_SHOWN: Final = ("task_id", "task_type", "group", "index", "agent_id", "won", "score")


class RolloutIndex:
    """The rollouts of one file, by groups in the order of the file.

    Attributes:
        path: The file.
        operators: Ids of the operators that judged any of them.
        groups: What the list shows of each group, as plain JSON types: ``group``, ``task``,
            ``type``, ``missing`` (how many rollouts are not there), and ``rollouts``, each with
            ``index``, ``agent``, ``won``, ``score``, ``steps``, ``foundational`` and
            ``breakthrough`` (sums of r^F and r^B) and ``fired`` (places in ``operators``).
    """

    def __init__(self, path: Path) -> None:
        """Reads the file once.

        Raises:
            ValueError: For a line that cannot be read; names the file and the line.
        """
        self.path = path
        self.operators: list[str] = []
        self.groups: list[dict[str, Any]] = []
        self._spans: dict[int, list[tuple[int, int]]] = {}
        by_number: dict[int, dict[str, Any]] = {}
        with path.open("rb", buffering=_BUFFER) as file:
            start = 0
            for number, line in enumerate(file, start=1):
                try:
                    self._add(line, start, by_number)
                except (ValueError, KeyError, TypeError) as error:
                    raise ValueError(f"{path}, line {number}: not a rollout: {error}") from error
                start += len(line)

    def lines(self, group: int) -> Iterator[str]:
        """The lines of the rollouts of a group.

        Raises:
            KeyError: For a group that is not there.
        """
        spans = self._spans[group]
        with self.path.open("rb") as file:
            for start, length in spans:
                file.seek(start)
                yield file.read(length).decode()

    def _add(self, line: bytes, start: int, by_number: dict[int, dict[str, Any]]) -> None:
        record = _summary(line)
        group = by_number.get(record["group"])
        if group is None:
            group = {"group": record["group"], "task": record["task_id"], "type": ""}
            group |= {"missing": 0, "rollouts": []}
            by_number[record["group"]] = group
            self.groups.append(group)
            self._spans[record["group"]] = []
        if "missing" in record:
            group["missing"] += record["missing"]
            return
        places = [self._place(name) for name in record["operators"]]
        group["type"] = record["task_type"]
        group["rollouts"].append(
            {
                "index": record["index"],
                "agent": record["agent_id"],
                "won": record["won"],
                "score": record["score"],
                "steps": len(record["foundational"]),
                "foundational": sum(record["foundational"]),
                "breakthrough": sum(record["breakthrough"]),
                "fired": [places[k] for k in record["fired"]],
            }
        )
        self._spans[record["group"]].append((start, len(line)))

    def _place(self, operator: str) -> int:
        if operator not in self.operators:
            self.operators.append(operator)
        return self.operators.index(operator)


@lru_cache(maxsize=64)
def _index(path: Path, _size: int, _modified: int) -> RolloutIndex:
    return RolloutIndex(path)


def index_of(path: Path) -> RolloutIndex:
    """The index of a file; read once as long as the file stays the same."""
    told = path.stat()
    return _index(path, told.st_size, told.st_mtime_ns)


def _summary(line: bytes) -> dict[str, Any]:
    """What the list shows of a line; its steps as columns."""
    steps, end = line.find(_STEPS), line.rfind(_END)
    pieces = line[steps:end].split(_JUDGMENTS)[1:] if 0 <= steps < end else []
    found = [told.groups() for piece in pieces if (told := _STEP.match(piece))]
    if not found or len(found) != len(pieces):
        return _parsed(json.loads(line))  # its keys stand in another order, or it has no steps
    head = line[:steps].rstrip(b", ") + b"}"
    record = {**json.loads(head), **json.loads(b"{" + line[end:])}
    judgments = {each for each, _, _ in found}
    fired = {
        k for each in judgments for k, bit in enumerate(each.replace(b" ", b"")[::2]) if bit == 49
    }
    return {
        **{name: record[name] for name in _SHOWN},
        "operators": record["operators"],
        "fired": sorted(fired),
        "foundational": [float(value) for _, value, _ in found],
        "breakthrough": [float(value) for _, _, value in found],
    }


def _parsed(record: dict[str, Any]) -> dict[str, Any]:
    if "missing" in record:
        return {name: record[name] for name in ("missing", "group", "task_id")}
    steps = record["steps"]
    return {
        **{name: record[name] for name in _SHOWN},
        "operators": record["operators"],
        "fired": sorted({k for s in steps for k, bit in enumerate(s["judgments"]) if bit}),
        "foundational": [step["foundational"] for step in steps],
        "breakthrough": [step["breakthrough"] for step in steps],
    }
