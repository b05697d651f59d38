"""Provenance of a run: versions, git commit, and the tasks of a panel."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import trca

if TYPE_CHECKING:
    from trca.envs.panel import Panel

COMMIT_VARIABLE: Final = "TRCA_COMMIT"
"""The environment variable with the commit of a packed copy, ``+modified`` for changed files."""
_PACKAGES: Final = ("ray", "torch", "transformers", "tokenizers", "gymnasium", "numpy", "alfworld")


def versions() -> dict[str, Any]:
    """Returns versions of trca, Python and packages that affect results, commit and machine."""
    return {
        "trca": trca.__version__,
        **git_commit(Path(trca.__file__).parent),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        "command": sys.argv,
        "packages": {name: number for name in _PACKAGES if (number := _version(name))},
    }


def git_commit(folder: Path) -> dict[str, Any]:
    """Returns the commit of a checkout, and whether files differ from the commit.

    Outside a checkout the commit comes from `COMMIT_VARIABLE`, which submitted jobs set. Without
    the variable the result is empty.
    """
    commit = _git(folder, "rev-parse", "HEAD")
    if not commit:
        commit, _, modified = os.environ.get(COMMIT_VARIABLE, "").partition("+")
        return {"commit": commit, "modified": bool(modified)} if commit else {}
    changed = _git(folder, "status", "--porcelain", "--untracked-files=no", "--", ".")
    return {"commit": commit, "modified": bool(changed)}


def panel_record(panel: Panel) -> dict[str, Any]:
    """Returns a panel as plain data: the hash first, then the task ids."""
    return {
        "hash": panel.hash,
        "environment": panel.environment,
        "split": panel.split,
        "tasks": len(panel.task_ids),
        "task_ids": list(panel.task_ids),
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _git(folder: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=folder, capture_output=True, text=True, timeout=10
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
