"""Folders of arrays that appear when complete, are checked when opened, and are memory-mapped."""

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

from trca.common.errors import DataError
from trca.common.files import sha256

_CONTENTS: Final = "contents.json"
_READ_AT_ONCE: Final = 256 * 2**20
"""Larger files are checked by size only, because reading takes every process seconds."""


class StoredDataError(DataError):
    """A folder of stored data is incomplete, changed, or of another kind or version."""

    def __init__(self, folder: Path, problem: str) -> None:
        """Makes the message.

        Args:
            folder: The folder.
            problem: The problem and the fix.
        """
        super().__init__(f"{folder}: {problem}", folder, problem)


class Writer:
    """An unfinished folder of arrays; see `writing`.

    Attributes:
        path: The folder with the files until completion. Callers may add further files.
        facts: Further values to store, as JSON.
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
        """Writes an array under a name; allocated arrays are already in the folder."""
        if self._allocated.get(name) is not array:
            np.save(self.path / f"{name}.npy", array)

    def allocate(self, name: str, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """A file-backed array to fill; only the pages in use are in memory."""
        if 0 in shape:
            self.add(name, np.empty(shape, dtype))
            return np.empty(shape, dtype)
        mapped: Any = open_memmap
        self._allocated[name] = mapped(self.path / f"{name}.npy", "w+", dtype, shape)
        return self._allocated[name]


@contextmanager
def writing(folder: Path, kind: str, version: int) -> Iterator[Writer]:
    """Writes a new folder of arrays, which appears when complete.

    If another process has written the same folder meanwhile, that folder stays.

    Args:
        folder: Target folder. Missing parents are created.
        kind: Kind of the arrays.
        version: Version of their layout.

    Yields:
        The writer for arrays and facts.

    Raises:
        FileExistsError: If the folder exists with other contents.
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
                    f"{folder} has other contents: delete it or choose another folder"
                ) from None
    finally:
        shutil.rmtree(work, ignore_errors=True)


def read_arrays(
    folder: Path, kind: str, version: int, verify: bool = True
) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Opens a folder of `writing`.

    Args:
        folder: The folder.
        kind: Required kind of the arrays.
        version: Required version of the layout.
        verify: Whether to check the contents of files up to 256 MiB, which reads these files once.
            Sizes are always checked.

    Returns:
        The arrays, memory-mapped and read-only, and the facts. Further files are only checked.

    Raises:
        StoredDataError: If the folder is incomplete, changed, or of another kind or version.
    """
    contents = _contents(folder, kind, version)
    arrays = {}
    for name, expected in contents["files"].items():
        path = folder / name
        if not path.is_file() or path.stat().st_size != expected["bytes"]:
            raise StoredDataError(folder, f"{name} is missing or truncated: build it again")
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
        stored = (contents["kind"], contents["version"])
    except FileNotFoundError:
        raise StoredDataError(folder, f"there is no {kind} here: build one") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoredDataError(folder, f"{_CONTENTS} cannot be read ({error})") from None
    if stored != (kind, version):
        raise StoredDataError(
            folder,
            f"it holds a {stored[0]} of version {stored[1]}, not a {kind} of version {version}:"
            " build it again",
        )
    return contents
