"""Folders of arrays: written whole or not at all, checked when opened, and memory-mapped."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.lib.format import open_memmap
from numpy.typing import DTypeLike, NDArray

from trca.common.files import sha256

_CONTENTS: Final = "contents.json"
_READ_AT_ONCE: Final = 256 * 2**20
"""Larger files are checked by their size: every process would take seconds to read them."""


class StoredDataError(Exception):
    """A folder of stored data is incomplete, of another kind or version, or was changed."""

    def __init__(self, folder: Path, problem: str) -> None:
        """Says what is wrong with which folder.

        Args:
            folder: The folder.
            problem: What is wrong, and how to mend it.
        """
        super().__init__(f"{folder}: {problem}")


class Writer:
    """A folder of arrays that is being written; see `writing`.

    Attributes:
        path: Where the files are until the folder is complete. Other files may be put there too.
        facts: What else to keep, as JSON.
    """

    def __init__(self, path: Path) -> None:
        """Starts with an empty folder.

        Args:
            path: The folder.
        """
        self.path = path
        self.facts: dict[str, Any] = {}
        self._allocated: dict[str, NDArray[Any]] = {}

    def add(self, name: str, array: NDArray[Any]) -> None:
        """Writes an array under a name; one that was allocated is there already."""
        if self._allocated.get(name) is not array:
            np.save(self.path / f"{name}.npy", array)

    def allocate(self, name: str, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """An array to fill, of which only what is being touched is in memory."""
        if 0 in shape:
            self.add(name, np.empty(shape, dtype))
            return np.empty(shape, dtype)
        mapped: Any = open_memmap
        self._allocated[name] = mapped(self.path / f"{name}.npy", "w+", dtype, shape)
        return self._allocated[name]


@contextmanager
def writing(folder: Path, kind: str, version: int) -> Iterator[Writer]:
    """Writes a new folder of arrays, which appears only once it is complete.

    When another process has written the same folder meanwhile, that one stays.

    Args:
        folder: Where to. Its parents are made.
        kind: What the arrays are.
        version: Version of their layout.

    Yields:
        Takes the arrays and the facts.

    Raises:
        FileExistsError: When there is something else of that name.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        writer = Writer(work)
        yield writer
        files = {
            path.name: {"bytes": path.stat().st_size, "sha256": sha256(path)}
            for path in sorted(work.iterdir())
        }
        contents = {"kind": kind, "version": version, "files": files, "facts": writer.facts}
        (work / _CONTENTS).write_text(json.dumps(contents, indent=1))
        work.chmod(0o755)
        try:
            os.rename(work, folder)
        except OSError:
            if not _holds(folder, contents):
                raise FileExistsError(
                    f"{folder} holds something else: delete it or choose another folder"
                ) from None
    finally:
        shutil.rmtree(work, ignore_errors=True)


def read_arrays(
    folder: Path, kind: str, version: int, verify: bool = True
) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Opens what was written with `writing`.

    Args:
        folder: The folder.
        kind: What the arrays should be.
        version: Version of the layout that is understood.
        verify: Whether to check the content of files up to 256 MiB, which reads them once; sizes
            are checked in any case.

    Returns:
        The arrays, memory-mapped and read-only, and the facts. Other files are only checked.

    Raises:
        StoredDataError: When the folder is not whole or not of that kind and version.
    """
    contents = _contents(folder, kind, version)
    arrays = {}
    for name, expected in contents["files"].items():
        path = folder / name
        if not path.is_file() or path.stat().st_size != expected["bytes"]:
            raise StoredDataError(folder, f"{name} is missing or cut off: build it again")
        small = expected["bytes"] <= _READ_AT_ONCE
        if verify and small and sha256(path) != expected["sha256"]:
            raise StoredDataError(folder, f"{name} was changed since it was built: build it again")
        if path.suffix == ".npy":
            arrays[path.stem] = np.asarray(np.load(path, mmap_mode="r"))
    return arrays, contents["facts"]


def _holds(folder: Path, contents: dict[str, Any]) -> bool:
    try:
        return bool(json.loads((folder / _CONTENTS).read_text()) == contents)
    except (OSError, ValueError):
        return False


def _contents(folder: Path, kind: str, version: int) -> dict[str, Any]:
    try:
        contents: dict[str, Any] = json.loads((folder / _CONTENTS).read_text())
        found = (contents["kind"], contents["version"])
    except FileNotFoundError:
        raise StoredDataError(folder, f"there is no {kind} here: build one") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoredDataError(folder, f"{_CONTENTS} cannot be read ({error})") from None
    if found != (kind, version):
        raise StoredDataError(
            folder,
            f"it holds a {found[0]} of version {found[1]}, not a {kind} of version {version}:"
            " build it again",
        )
    return contents
