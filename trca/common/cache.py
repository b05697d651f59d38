"""The cache: where things lie that are built on first use, and how one process builds them."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import platformdirs
from filelock import FileLock


def cache_folder() -> Path:
    """``$TRCA_CACHE``, else the user's cache folder of this platform."""
    return Path(os.environ.get("TRCA_CACHE") or platformdirs.user_cache_dir("trca"))


def digest(*parts: Any) -> str:
    """Twelve hex digits of what something is made of; the parts as JSON."""
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def build_once(
    folder: Path,
    build: Callable[[Path], None],
    whole: Callable[[Path], bool] = Path.is_dir,
) -> Path:
    """Returns a folder of the cache, built where it is missing or damaged.

    One process builds; others that ask at the same time wait for it. The folder appears whole or
    not at all. A build that raises leaves nothing; what a killed one leaves is removed by the next.

    Args:
        folder: Where it lies; its name says what it is made of.
        build: Fills an empty folder.
        whole: Whether the folder is there and complete.

    Raises:
        PermissionError: When the cache cannot be written to; says what to set.
    """
    if whole(folder):
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(folder.with_name(f"{folder.name}.lock")):
            if not whole(folder):
                _build(folder, build)
    except PermissionError as error:
        raise PermissionError(
            f"{folder.parent}: cannot write here ({error.strerror}): let TRCA_CACHE name a folder"
            " of your own"
        ) from error
    return folder


def _build(folder: Path, build: Callable[[Path], None]) -> None:
    draft = folder.with_name(f"{folder.name}.draft")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir()
    try:
        build(draft)
        shutil.rmtree(folder, ignore_errors=True)
        draft.rename(folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
