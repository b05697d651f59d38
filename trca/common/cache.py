"""Things built on first use and kept: where they lie, and how one builder at a time makes them."""

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


def build_once(folder: Path, build: Callable[[Path], None]) -> Path:
    """The folder, built if it is not there.

    Processes that ask at once wait for the first. The folder appears whole or not at all: a build
    that dies leaves a folder beside it that the next build clears away.

    Args:
        folder: Where it is kept; the name should say what it was made of.
        build: Fills an empty folder.
    """
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_name(f"{folder.name}.lock")):
        if not folder.is_dir():
            draft = folder.with_name(f"{folder.name}.draft")
            shutil.rmtree(draft, ignore_errors=True)
            draft.mkdir()
            build(draft)
            draft.rename(folder)
    return folder
