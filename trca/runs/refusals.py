"""Refusals of run names and folders, and paths as a shell reads them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import TYPE_CHECKING

from trca.tune_configs.files import ConfigError

if TYPE_CHECKING:
    from trca.runs.storage import Storage


def quoted(path: Path | str) -> str:
    """Quotes a path for a shell."""
    return shlex.quote(str(path))


def check_letters(name: str) -> None:
    """Refuses a name with letters that folders and URIs do not take.

    Raises:
        ConfigError: Names the letters to use.
    """
    if not re.fullmatch(r"[\w.+=-]+", name) or name.strip(".") == "":
        raise ConfigError(f"the name {name!r}: use letters, digits and . _ - + =")


def taken(path: Path, storage: Storage | None) -> str:
    """The error for the name of a run that exists."""
    address = f"{storage.uri}/{path.name}" if storage else path
    mend = f"continue the run: --resume {quoted(address)}"
    if not (storage or (path / "config.yaml").is_file()):
        mend = "delete the folder, unless a run is just starting in the folder"
    return f"{address} exists: choose another --name, or {mend}"


def not_writable(path: Path, error: OSError) -> str:
    """The error for a storage path without write access."""
    return f"cannot write to {path}: {error.strerror or error}: choose another --storage-path"


def check_writable(root: Path) -> None:
    """Refuses a folder of runs that this user cannot make or write. Leaves nothing.

    Raises:
        ConfigError: Names the folder.
    """
    folder = next(path for path in (root, *root.absolute().parents) if path.exists())
    if not folder.is_dir():
        raise ConfigError(f"{root}: a file is in the way: name a folder")
    try:
        TemporaryDirectory(dir=folder).cleanup()  # root may not write to each folder, such as /proc
    except OSError as error:
        raise ConfigError(not_writable(root, error)) from None


def make_writable(folder: Path) -> None:
    """Creates the folder of a report if it does not exist.

    Raises:
        ConfigError: If the folder is not writable. The message names ``--output``.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        TemporaryFile(dir=folder).close()
    except OSError as error:
        raise ConfigError(
            f"cannot write to {folder}: {error.strerror or error}: name another folder by --output"
        ) from None
