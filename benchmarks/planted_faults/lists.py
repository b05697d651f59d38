"""Reads the lists of faults; `benchmarks.planted_faults` describes their format."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmarks.planted_faults.plant import Fault

FOLDER = Path(__file__).parent


def read_faults(folder: Path = FOLDER) -> list[Fault]:
    """Returns the faults of all lists in a folder, in the order of file names and lines.

    Raises:
        ValueError: If a list breaks the format, or two faults have the same name.
    """
    faults = [fault for path in sorted(folder.glob("*.txt")) for fault in _read(path)]
    names = [fault.name for fault in faults]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"two faults have the name {twice[0]!r}; rename one")
    return faults


def _read(path: Path) -> Iterator[Fault]:
    tests = ""
    for number, lines in _blocks(path):
        if len(lines) == 1 and lines[0].startswith("[") and lines[0].endswith("]"):
            tests = lines[0][1:-1]
            continue
        old = [line[2:] for line in lines[2:] if line.startswith("-")]
        new = [line[2:] for line in lines[2:] if line.startswith("+")]
        if not (tests and old and lines[0].startswith("# ") and len(lines) == 2 + len(old + new)):
            raise ValueError(
                f"{path.name}, line {number}: not a fault. A fault has a line '# name', a line"
                " 'module:function', lines '- old code' and lines '+ new code', below a line"
                " '[test file]'"
            )
        yield Fault(lines[0][2:], lines[1], "\n".join(old), "\n".join(new), tests)


def _blocks(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yields the paragraphs of a file with the number of their first line."""
    block: list[str] = []
    for number, line in enumerate([*path.read_text().split("\n"), ""], 1):
        if line.strip():
            block.append(line.rstrip())
        elif block:
            yield number - len(block), block
            block = []
