"""Folders of arrays that appear when complete, are checked when opened, and are memory-mapped."""

from __future__ import annotations

import json
import os
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
from numpy.lib.format import open_memmap
from numpy.typing import DTypeLike, NDArray

from trca.common.errors import DataError
from trca.common.files import sha256

_CONTENTS: Final = "contents.json"
_READ_AT_ONCE: Final = 256 * 2**20
"""Larger files are checked by size only, because reading takes every process seconds."""
_MARKS: Final = 4096
"""Number of strings in memory, at equal distances; a search starts with these strings."""


class StoredDataError(DataError):
    """A folder of stored data is incomplete, changed, or of another kind or version."""

    def __init__(self, folder: Path, problem: str) -> None:
        super().__init__(f"{folder}: {problem}", folder, problem)


class Writer:
    """An unfinished folder of arrays; see `writing`.

    ``path`` is the folder until completion; callers may add further files. ``facts`` are further
    values to store, as JSON.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.facts: dict[str, Any] = {}
        self._allocated: dict[str, NDArray[Any]] = {}

    def add(self, name: str, values: NDArray[Any]) -> None:
        """Writes an array under a name; allocated arrays are already in the folder."""
        if self._allocated.get(name) is not values:
            np.save(self.path / f"{name}.npy", values)

    def allocate(self, name: str, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """A file-backed array to fill; only the pages in use are in memory."""
        if 0 in shape:
            self.add(name, np.empty(shape, dtype))
            return np.empty(shape, dtype)
        mapped: Any = open_memmap
        self._allocated[name] = mapped(self.path / f"{name}.npy", "w+", dtype, shape)
        return self._allocated[name]

    @contextmanager
    def strings(self, name: str, ends_name: str) -> Iterator[Callable[[bytes], object]]:
        """Yields a function that appends a string to the arrays of a `ByteStrings`."""
        raw, ends = self.path / f"{name}.raw", array("q")
        with raw.open("wb") as file:

            def append(string: bytes) -> None:
                file.write(string)
                ends.append(file.tell())

            yield append
        size = raw.stat().st_size
        self.add(name, np.memmap(raw, np.uint8, "r") if size else np.empty(0, np.uint8))
        self.add(ends_name, np.array(ends, np.int64))
        raw.unlink()


class ByteStrings(Sequence[bytes]):
    """Byte strings in two arrays, which may be memory-mapped: only accessed strings are read."""

    def __init__(self, data: NDArray[np.uint8], ends: NDArray[np.int64]) -> None:
        """Combines the concatenated strings and the end of each, shape ``(strings,)``."""
        self._data, self._ends = data.data, ends.data

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, number: Any) -> Any:
        if isinstance(number, slice):
            return [self[each] for each in range(*number.indices(len(self)))]
        start = self._ends[number - 1] if number else 0
        return bytes(self._data[start : self._ends[number]])

    def __iter__(self) -> Iterator[bytes]:
        start = 0
        for end in self._ends:
            yield bytes(self._data[start:end])
            start = end


class SortedStrings(ByteStrings):
    """Sorted byte strings. Opening millions of them takes no time and little memory."""

    def __init__(self, data: NDArray[np.uint8], ends: NDArray[np.int64]) -> None:
        super().__init__(data, ends)
        self._stride = max(1, len(ends) // _MARKS)
        self._marks = [self[number] for number in range(0, len(ends), self._stride)]

    def find(self, string: bytes) -> int | None:
        """The number of a string, in logarithmic time; None for an unknown string."""
        mark = bisect_right(self._marks, string)
        if not mark:
            return None
        first, end = (mark - 1) * self._stride, min(mark * self._stride, len(self))
        number = first + bisect_left(range(first, end), string, key=self.__getitem__)
        return number if number < end and self[number] == string else None


def encoded(text: str) -> bytes:
    """The text in UTF-8. An unpaired surrogate, which JSON may contain, becomes three bytes."""
    return text.encode("utf-8", "surrogatepass")


@contextmanager
def writing(folder: Path, kind: str, version: int) -> Iterator[Writer]:
    """Yields the writer of a new folder of arrays, which appears when complete.

    If another process has written the same folder meanwhile, that folder stays. Other contents are
    a FileExistsError.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as name:
        work = Path(name)
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
            try:
                stored = json.loads((folder / _CONTENTS).read_text())
            except (OSError, ValueError):
                stored = None
            if stored != contents:
                raise FileExistsError(
                    f"{folder} has other contents: delete it or choose another folder"
                ) from None


def read_arrays(
    folder: Path, kind: str, version: int, verify: bool = True
) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Opens a folder of `writing`: its arrays, memory-mapped and read-only, and its facts.

    Checks the sizes of files and, with ``verify``, the contents of files up to 256 MiB, which reads
    these files once. An incomplete or changed folder, or another kind, is a StoredDataError.
    """
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
