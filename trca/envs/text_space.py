"""`AnyText`: the space of all strings, with support for Gymnasium's vector environments.

By default, `gymnasium.vector.AsyncVectorEnv` passes observations through shared memory of a fixed
size, and `gymnasium.spaces.Text` limits the length of a text. With `AnyText`, each worker writes
its observation to a file in a temporary folder. Texts may have any length and any script.
"""

from __future__ import annotations

import copy
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, overload

from gymnasium.spaces import Text
from gymnasium.vector.utils import (
    create_shared_memory,
    read_from_shared_memory,
    write_to_shared_memory,
)


class AnyText(Text):
    """A `Text` space that contains every string. Samples are short and printable ASCII."""

    def __init__(self) -> None:
        super().__init__(max_length=64, min_length=0)

    def __repr__(self) -> str:
        """The name: the bounds of `Text` are those of samples."""
        return "AnyText()"

    def contains(self, x: Any) -> bool:
        """Whether ``x`` is a string, of any length and with any characters."""
        return isinstance(x, str)

    def __deepcopy__(self, memo: dict[int, Any]) -> AnyText:
        copied = copy.copy(self)  # the characters of samples are immutable
        copied._np_random = copy.deepcopy(self._np_random, memo)
        return copied


class SharedTexts(Sequence[str]):
    """The last texts of the workers of a vector environment, read on access.

    A deep copy is a tuple of strings. The folder is deleted together with this object.
    """

    def __init__(self, folder: str, count: int) -> None:
        """Reads the texts in a folder.

        Args:
            folder: Folder with one file per worker.
            count: Number of workers.
        """
        self._paths = [_path(folder, index) for index in range(count)]
        weakref.finalize(self, _remove, folder, os.getpid())

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[str, ...]: ...

    def __getitem__(self, index: int | slice) -> str | tuple[str, ...]:
        """The last text of a worker; blank before its first text."""
        if isinstance(index, slice):
            return tuple(map(_text, self._paths[index]))
        return _text(self._paths[index])

    def __len__(self) -> int:
        """The number of workers."""
        return len(self._paths)

    def __iter__(self) -> Iterator[str]:
        return map(_text, self._paths)

    def __deepcopy__(self, memo: dict[int, Any]) -> tuple[str, ...]:
        return tuple(self)


@create_shared_memory.register(AnyText)
def _create(space: AnyText, n: int = 1, ctx: Any = None) -> str:
    return tempfile.mkdtemp(prefix="trca-observations-")


@read_from_shared_memory.register(AnyText)
def _read(space: AnyText, shared_memory: str, n: int = 1) -> SharedTexts:
    return SharedTexts(shared_memory, n)


@write_to_shared_memory.register(AnyText)
def _write(space: AnyText, index: int, value: str, shared_memory: str) -> None:
    _path(shared_memory, index).write_bytes(value.encode("utf-8", "surrogatepass"))


def _path(folder: str, index: int) -> Path:
    return Path(folder, str(index))


def _text(path: Path) -> str:
    return path.read_bytes().decode("utf-8", "surrogatepass") if path.exists() else ""


def _remove(folder: str, owner: int) -> None:
    """Deletes a folder, unless the caller is a forked process with a copy of the object."""
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)
