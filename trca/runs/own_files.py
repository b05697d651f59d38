"""The user's files in settings: a credit rule, a rubric library, an environment.

Their paths become absolute when settings are read (`trca.tune_configs.files.absolute`). A run
stores copies. It still works after a move of the run folder or a change of the originals.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, TypeGuard

from trca.common import strict_yaml
from trca.common.files import sha256, write_json
from trca.tune_configs.files import ConfigError, absolute, map_texts, path_parts

FOLDER: Final = "files"
RECORD: Final = "files.json"
_KEPT: Final = strict_yaml.SUFFIXES | {".py"}


def keep(settings: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Copies the user's files into the run folder and records their hashes.

    Returns the flat settings with the copies, such as ``files/name``, in place of absolute paths.
    """
    copies = (folder / FOLDER).resolve()
    originals: dict[Path, None] = {}

    def noted(text: str) -> str:
        path, _ = path_parts(text)
        if _is_kept(path) and not path.is_relative_to(copies):
            originals[path] = None
        return text

    for value in settings.values():
        map_texts(value, noted)
    names = _names(originals)

    def copied(text: str) -> str:
        path, name = path_parts(text)
        if not _is_kept(path):
            return text
        return f"{FOLDER}/{names.get(path) or path.relative_to(copies)}{name}"

    kept = {key: map_texts(value, copied) for key, value in settings.items()}
    if not names:
        return kept
    record = {}
    for path, name in names.items():
        target = folder / FOLDER / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
        record[f"{FOLDER}/{name}"] = {"from": str(path), "sha256": sha256(target)}
    write_json(folder / RECORD, record)
    return kept


def restore(
    settings: Mapping[str, Any], folder: Path, copies: Mapping[str, Mapping[str, str]]
) -> dict[str, Any]:
    """Returns a run's settings with absolute paths of the copies.

    ``copies`` are the contents of ``files.json``: source and hash of each copy.

    Raises:
        ConfigError: If a copy is missing or changed.
    """
    for name, about in copies.items():
        path = folder / name
        if not path.is_file():
            raise ConfigError(f"{path} is missing: the run needs its copy of {about['from']}")
        if sha256(path) != about["sha256"]:
            raise ConfigError(
                f"{path} differs from the file at the start of the run: restore the file, or start"
                " a new run"
            )
    return absolute(settings, folder)


def by_content(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns settings with name and hash of the user's files in place of their paths.

    A file and its copy in a run folder are then equal, on any machine.
    """

    def named(text: str) -> str:
        path, name = path_parts(text)
        return f"{path.name}{name} (SHA-256 {sha256(path)[:12]})" if _is_kept(path) else text

    return {key: map_texts(value, named) for key, value in settings.items()}


def _is_kept(path: Path | None) -> TypeGuard[Path]:
    return path is not None and path.suffix in _KEPT and path.is_absolute() and path.is_file()


def _libraries_of(source: Path) -> list[Path]:
    """Returns YAML files that a Python file mentions, e.g. a rubric library.

    The files are in the folder of the Python file, or in a folder of this folder that the Python
    file mentions too.
    """
    if source.suffix != ".py":
        return []
    text, here = source.read_text("utf-8", "replace"), source.parent
    below = [
        path
        for path in here.glob("*/*.y*ml")
        if re.search(rf"""["'/]{re.escape(path.parent.name)}["'/]""", text)
    ]
    return [path for path in sorted([*here.glob("*.y*ml"), *below]) if path.name in text]


def _names(files: Iterable[Path]) -> dict[Path, Path]:
    """Returns the relative path of each copy of some files and of the libraries that they mention.

    Copies from the first folder are at the top, copies from further folders in 2, 3 and so on.
    Copies from one folder stay in one folder under their names, and libraries at their place
    next to a Python file, because the files may open each other.
    """
    folders: dict[Path, Path] = {}
    names: dict[Path, Path] = {}
    for file in sorted(files, key=lambda path: path.suffix != ".py"):
        number = len(folders) + 1
        place = folders.setdefault(file.parent, Path() if number == 1 else Path(str(number)))
        for path in (*_libraries_of(file), file):
            names.setdefault(path, place / path.relative_to(file.parent))
    return names
