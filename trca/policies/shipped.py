"""The tiny policies in the package: their recipes, and the check of their files.

``tiny_data/manifest.json`` lists the policies by name: environment, its arguments, response format,
digest of the recipe, and SHA-256 of each file. Weights are stored in float16 and computed in
float32. ``python benchmarks/tiny_policy.py --ship`` rebuilds the policies.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from trca.common.files import sha256

FOLDER: Final = Path(__file__).with_name("tiny_data")
MANIFEST: Final = "manifest.json"


@dataclass(frozen=True)
class ShippedPolicy:
    """An entry of the manifest: a recipe, empty before a build, and the SHA-256 of each file."""

    env: str
    env_config: dict[str, Any]
    response_format: str
    recipe: str
    sha256: dict[str, str]


def manifest() -> dict[str, ShippedPolicy]:
    """Returns the shipped policies by name."""
    entries = json.loads((FOLDER / MANIFEST).read_text())
    return {name: ShippedPolicy(**entry) for name, entry in entries.items()}


def shipped_folder(recipe: str) -> Path | None:
    """Returns the folder of a shipped policy by its recipe's digest; `None` if not shipped."""
    names = (name for name, policy in manifest().items() if policy.recipe == recipe)
    return next((FOLDER / name for name in names), None)


def damage(folder: str | Path) -> str:
    """Describes a missing or changed file of a shipped policy's folder; empty for other folders."""
    folder = Path(folder)
    if folder.parent != FOLDER:
        return ""
    for name, shipped in manifest()[folder.name].sha256.items():
        path = folder / name
        present = sha256(path) if path.is_file() else "missing"
        if present != shipped:
            return (
                f"{path}: SHA-256 is {present}, must be {shipped}: the file of the tiny policy is"
                " damaged. Reinstall the package; in a checkout, run git restore on the file"
            )
    return ""
