"""What a run used: versions, the git commit, and the tasks of a panel."""

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
"""The environment variable that tells a packed copy its commit, ``+modified`` where it differs."""
_PACKAGES: Final = ("ray", "torch", "transformers", "tokenizers", "gymnasium", "numpy", "alfworld")


def versions() -> dict[str, Any]:
    """This package, its git commit, Python, the machine, and the packages that decide results."""
    return {
        "trca": trca.__version__,
        **git_commit(Path(trca.__file__).parent),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        "command": sys.argv,
        "packages": {name: found for name in _PACKAGES if (found := _version(name))},
    }


def git_commit(folder: Path) -> dict[str, Any]:
    """The commit of a checkout and whether files differ from it.

    Outside a checkout it is what `COMMIT_VARIABLE` says, which submitted jobs carry; else empty.
    """
    commit = _git(folder, "rev-parse", "HEAD")
    if not commit:
        told, _, modified = os.environ.get(COMMIT_VARIABLE, "").partition("+")
        return {"commit": told, "modified": bool(modified)} if told else {}
    changed = _git(folder, "status", "--porcelain", "--untracked-files=no", "--", ".")
    return {"commit": commit, "modified": bool(changed)}


def panel_record(panel: Panel) -> dict[str, Any]:
    """A panel as plain data: its hash first, then its tasks."""
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
