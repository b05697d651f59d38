"""The packages of trca's extras: when they are imported, and how to install them."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import requires, version
from importlib.util import find_spec
from typing import Final

postponed: bool = False
"""Whether the first use of an algorithm imports Ray and PyTorch; else `import trca.algorithms`.

The commands set it to True: a refusal takes less than two seconds, and the imports take ten.
"""
_TRAINING: Final = ("ray", "torch", "transformers")


def install(extra: str = "", folder: str = ".") -> str:
    """Returns the command that installs the package in a folder of a checkout, with an extra.

    PyPI does not have the package, so a command with the name ``trca`` would fail.
    """
    package = f"'{folder}[{extra}]'" if extra else folder
    return f"pip install {package} in a checkout of TRCA"


def missing_training() -> str:
    """Returns how to install missing packages for training, in one line; empty if complete.

    A package with a version outside of the tested range is missing.
    """
    missing = [name for name in _TRAINING if find_spec(name) is None]
    missing = missing or list(_other_versions())
    return f"training needs {', '.join(missing)}: {install('train')}" if missing else ""


def _other_versions() -> Iterator[str]:
    """The range of each package for training that has a version outside, and the version."""
    from packaging.requirements import Requirement

    for wanted in map(Requirement, requires("trca") or ()):
        training = wanted.marker is not None and wanted.marker.evaluate({"extra": "train"})
        if training and wanted.name in _TRAINING:
            found = version(wanted.name)
            if not wanted.specifier.contains(found, True):
                yield f"{wanted.name} {wanted.specifier} and found {found}"


def missing_extra(package: str, user: str, extra: str) -> str:
    """Returns how to install the extra of a package; empty if the package is installed.

    The line names ``user``, the feature that needs the package.
    """
    if find_spec(package) is not None:
        return ""
    return f"{user} needs {package}: {install(extra)}"
