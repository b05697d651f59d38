"""An index of a file of rollouts: position and summary of each line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from trca.common.files import FileVersion, versions

_BUFFER: Final = 2**20


class RolloutIndex:
    """The rollouts of one file, by groups in the order of the file.

    Attributes:
        path: The file.
        operators: Ids of the operators that judged any of them.
        groups: The list entry of each group, as plain JSON types: ``group``, ``task``,
            ``type``, ``missing`` (number of missing rollouts), and ``rollouts``, each with
            ``index``, ``agent``, ``won``, ``score``, ``steps``, ``foundational`` and
            ``breakthrough`` (sums of r^F and r^B) and ``fired`` (places in ``operators``).
    """

    def __init__(self, path: Path) -> None:
        """Reads the file once.

        Raises:
            ValueError: For an unreadable line. The message names the file and the line.
        """
        self.path = path
        self.operators: list[str] = []
        self.groups: list[dict[str, Any]] = []
        self._spans: dict[int, list[tuple[int, int]]] = {}
        self._numbers: dict[int, list[int]] = {}
        self._count = 0
        by_number: dict[int, dict[str, Any]] = {}
        with path.open("rb", buffering=_BUFFER) as file:
            start = 0
            for number, line in enumerate(file, start=1):
                try:
                    self._add(line, start, by_number)
                except (ValueError, KeyError, TypeError, RecursionError) as error:
                    raise ValueError(f"{path}, line {number}: not a rollout: {error}") from error
                start += len(line)

    def lines(self, group: int) -> Iterator[str]:
        """The lines of the rollouts of a group.

        Raises:
            KeyError: For an unknown group.
        """
        spans = self._spans[group]
        with self.path.open("rb") as file:
            for start, length in spans:
                file.seek(start)
                yield file.read(length).decode()

    def numbers(self, group: int) -> list[int]:
        """The numbers of a group's rollouts in the file, from 0, without missing rollouts.

        ``trca inspect --rollout`` takes these numbers. They have the order of `lines`.

        Raises:
            KeyError: For an unknown group.
        """
        return self._numbers[group]

    def _add(self, line: bytes, start: int, by_number: dict[int, dict[str, Any]]) -> None:
        record = json.loads(line)
        group = by_number.get(record["group"])
        if group is None:
            group = {"group": record["group"], "task": record["task_id"], "type": ""}
            group |= {"missing": 0, "rollouts": []}
            by_number[record["group"]] = group
            self.groups.append(group)
            self._spans[record["group"]] = []
            self._numbers[record["group"]] = []
        if "missing" in record:
            group["missing"] += record["missing"]
            return
        steps = record["steps"]
        places = [self._place(name) for name in record["operators"]]
        fired = {k for step in steps for k, bit in enumerate(step["judgments"]) if bit}
        group["type"] = record["task_type"]
        group["rollouts"].append(
            {
                "index": record["index"],
                "agent": record["agent_id"],
                "won": record["won"],
                "score": record["score"],
                "steps": len(steps),
                "foundational": sum(step["foundational"] for step in steps),
                "breakthrough": sum(step["breakthrough"] for step in steps),
                "fired": [places[k] for k in sorted(fired)],
            }
        )
        self._spans[record["group"]].append((start, len(line)))
        self._numbers[record["group"]].append(self._count)
        self._count += 1

    def _place(self, operator: str) -> int:
        if operator not in self.operators:
            self.operators.append(operator)
        return self.operators.index(operator)


@lru_cache(maxsize=64)
def _index(path: Path, file: tuple[FileVersion, ...]) -> RolloutIndex:
    return RolloutIndex(path)


def index_of(path: Path) -> RolloutIndex:
    """The index of a file. The file is read again only after a change."""
    return _index(path, versions(path))
