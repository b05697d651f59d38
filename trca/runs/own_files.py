"""The user's own files that settings name: a credit rule, a rubric library, an environment.

Their paths become absolute when settings are read (`trca.tune_configs.files.absolute`). A run
keeps copies, so that it still works when it is moved or when the originals change.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeGuard

from trca.common.files import sha256, write_json
from trca.tune_configs.files import ConfigError, absolute, map_texts, path_parts

FOLDER: Final = "files"
RECORD: Final = "files.json"
_KEPT: Final = frozenset({".py", ".yaml", ".yml"})


def keep(settings: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Copies the user's files into the run folder and writes down their hashes.

    Args:
        settings: Flat settings with absolute paths.
        folder: The run's folder.

    Returns:
        The settings with the copies, such as ``files/name``, in place of the originals.
    """
    own = (folder / FOLDER).resolve()
    found: dict[Path, None] = {}

    def noted(text: str) -> str:
        path, _ = path_parts(text)
        if _is_kept(path) and not path.is_relative_to(own):
            found[path] = None
        return text

    for value in settings.values():
        map_texts(value, noted)
    names = _names([*_libraries_beside(found), *found])

    def copied(text: str) -> str:
        path, name = path_parts(text)
        if not _is_kept(path):
            return text
        return f"{FOLDER}/{names.get(path) or path.relative_to(own)}{name}"

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
    """A run's settings with absolute paths of its copies.

    Args:
        settings: Flat settings, as `keep` returns them.
        folder: The run's folder.
        copies: The contents of ``files.json``: source and hash of each copy.

    Raises:
        ConfigError: When a copy is missing or changed.
    """
    for name, about in copies.items():
        path = folder / name
        if not path.is_file():
            raise ConfigError(f"{path} is missing: the run needs its copy of {about['from']}")
        if sha256(path) != about["sha256"]:
            raise ConfigError(
                f"{path} is not the file the run was started with: put that back, or start a new"
                " run"
            )
    return absolute(settings, folder)


def _is_kept(path: Path | None) -> TypeGuard[Path]:
    return path is not None and path.suffix in _KEPT and path.is_absolute() and path.is_file()


def _libraries_beside(files: Iterable[Path]) -> list[Path]:
    """YAML files beside a kept Python file whose names stand in it, such as its rubric library.

    Their copies keep these names, since the Python file reads them by name.
    """
    return [
        path
        for source in files
        if source.suffix == ".py"
        for path in sorted(source.parent.glob("*.y*ml"))
        if path.name in source.read_text("utf-8", "replace")
    ]


def _names(files: Sequence[Path]) -> dict[Path, Path]:
    """Where each copy lies: those of the first folder on top, of further ones in 2, 3 and so on.

    Copies from one folder stay together under their names, since they may read each other.
    """
    folders: dict[Path, Path] = {}
    for path in files:
        number = len(folders) + 1
        folders.setdefault(path.parent, Path() if number == 1 else Path(str(number)))
    return {path: folders[path.parent] / path.name for path in files}
