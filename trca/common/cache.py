"""Caches: a folder for data that is built once, and functions of texts with bounded memory."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from functools import lru_cache, wraps
from pathlib import Path
from typing import Any, TypeVar

import platformdirs
from filelock import FileLock

from trca.common.files import writing_folder

Result = TypeVar("Result")


def cache_folder() -> Path:
    """Returns ``$TRCA_CACHE``, or the platform's cache folder of the user."""
    return Path(os.environ.get("TRCA_CACHE") or platformdirs.user_cache_dir("trca"))


def digest(*parts: Any) -> str:
    """Returns a digest of data, 12 hex digits of the SHA-256 of its JSON."""
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def build_once(
    folder: Path,
    build: Callable[[Path], None],
    complete: Callable[[Path], bool] = Path.is_dir,
) -> Path:
    """Returns a folder of the cache, and builds it if it is missing or damaged.

    Only one process builds, and concurrent callers wait. The folder appears atomically. A failed
    build leaves nothing. The next build removes the draft of a killed build.

    ``build`` fills an empty folder. The name of the folder should contain a digest of its recipe.

    Raises:
        PermissionError: If the cache is not writable.
    """
    if complete(folder):
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(folder.with_name(f"{folder.name}.lock")):
            if not complete(folder):
                with writing_folder(folder) as draft:
                    build(draft)
    except PermissionError as error:
        raise PermissionError(
            f"{folder.parent}: cannot write here ({error.strerror}): set TRCA_CACHE to a writable"
            " folder"
        ) from error
    return folder


def remembered(
    entries: int, longest: int
) -> Callable[[Callable[[str], Result]], Callable[[str], Result]]:
    """Caches the results for the last texts, at most ``entries * longest`` characters of text.

    Results of longer texts are not cached: agents write texts of any length, so a limit on the
    number of entries does not bound the memory.
    """

    def decorate(function: Callable[[str], Result]) -> Callable[[str], Result]:
        kept = lru_cache(maxsize=entries)(function)
        return wraps(function)(lambda text: (kept if len(text) <= longest else function)(text))

    return decorate
