"""Runs tests on a temporary copy of the tree, each time in a fork that has the libraries loaded."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LIBRARIES = ("hypothesis", "pytest", "ray.rllib.algorithms.algorithm", "ray.tune", "transformers")


@dataclass(frozen=True)
class Outcome:
    """The result of the tests on one tree.

    Attributes:
        failed: The first test that failed; empty if none failed.
        error: The type of its exception, such as ``AssertionError``.
        passed: Number of tests that passed.
        seconds: Wall-clock seconds.
    """

    failed: str
    error: str
    passed: int
    seconds: float


class Witness:
    """Pytest plugin that notes failures of test functions; an error of a fixture proves nothing."""

    def __init__(self) -> None:
        self.failed, self.error, self.passed = "", "", 0

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Pytest's hook after each phase of a test."""
        if report.when == "call":
            self.passed += report.passed
            if report.failed and not self.failed:
                self.failed = report.nodeid

    def pytest_exception_interact(self, call: Any, report: Any) -> None:
        """Pytest's hook for an exception, before the hook above."""
        if call.when == "call" and not self.error:
            self.error = call.excinfo.typename


def load_libraries() -> None:
    """Imports the libraries once, and spares Hypothesis the search for a smaller example."""
    sys.dont_write_bytecode = True
    for name in LIBRARIES:
        importlib.import_module(name)
    from hypothesis import Phase, settings

    settings.register_profile("planted", phases=(Phase.explicit, Phase.generate))
    settings.load_profile("planted")


def copy_tree(root: Path, tree: Path) -> None:
    """Copies the package, the tests, and the examples and pages that tests read."""
    command = ["git", "-C", str(root), "ls-files", "-co", "--exclude-standard"]
    command += ["trca", "plugins", "tests", "examples", "docs", "pyproject.toml"]
    names = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\n")
    for name in filter(None, names):
        if (root / name).exists():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(root / name, tree / name, follow_symlinks=False)


def run_tests(tree: Path, tests: Sequence[str]) -> Outcome:
    """Runs test files on a tree up to the first failure.

    Raises:
        RuntimeError: If no test ran, such as for a tree that cannot be imported.
    """
    start = time.perf_counter()
    result, output = tree / "result.json", tree / "output.txt"
    result.unlink(missing_ok=True)
    child = os.fork()
    if not child:
        try:
            with output.open("w") as file:
                os.dup2(file.fileno(), 1)
                os.dup2(file.fileno(), 2)
            os.chdir(tree)
            places = [str(tree), *map(str, tree.glob("plugins/*"))]
            sys.path[:0] = places
            os.environ["PYTHONPATH"] = os.pathsep.join(places)
            witness = Witness()
            import pytest

            pytest.main(["-q", "-x", "-p", "no:cacheprovider", *tests], plugins=[witness])
            result.write_text(json.dumps([witness.failed, witness.error, witness.passed]))
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    failed, error, passed = json.loads(result.read_text()) if result.is_file() else ("", "", 0)
    if not failed and not passed:
        raise RuntimeError(f"no test ran in {', '.join(tests)}:\n{output.read_text()[-3000:]}")
    return Outcome(failed, error, passed, time.perf_counter() - start)
