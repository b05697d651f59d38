"""Command line; see `benchmarks.planted_faults`."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.planted_faults.lists import read_faults
from benchmarks.planted_faults.plant import Fault
from benchmarks.planted_faults.run import copy_tree, load_libraries, run_tests

ROOT = Path(__file__).resolve().parents[2]


def check(faults: Sequence[Fault]) -> int:
    """Applies every fault to the source without running a test; returns the number of errors."""
    errors = 0
    for fault in faults:
        try:
            fault.planted(fault.path(ROOT).read_text())
            if not (ROOT / fault.tests).is_file():
                raise ValueError(f"fault {fault.name!r}: no test file {fault.tests}")
        except ValueError as error:
            errors += 1
            print(error)
    print(f"{len(faults) - errors} of {len(faults)} faults apply")
    return errors


def plant_each(faults: Sequence[Fault]) -> int:
    """Plants the faults one by one, and prints the first test that fails.

    Returns:
        The number of faults that survive; 1 if a test fails without a fault.
    """
    load_libraries()
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        copy_tree(ROOT, tree)
        clean = run_tests(tree, list(dict.fromkeys(fault.tests for fault in faults)))
        if clean.failed:
            print(f"{clean.failed} fails without a fault")
            return 1
        print(f"no fault: {clean.passed} tests pass in {clean.seconds:.0f} s", flush=True)
        survivors = 0
        for fault in faults:
            path = fault.path(tree)
            source = path.read_text()
            path.write_text(fault.planted(source))
            outcome = run_tests(tree, [fault.tests])
            path.write_text(source)
            survivors += not outcome.failed
            test = outcome.failed.removeprefix("tests/") or "SURVIVES"
            print(f"{fault.name:45} {outcome.seconds:5.1f} s  {test}  {outcome.error}", flush=True)
    print(f"{len(faults) - survivors} of {len(faults)} faults are found")
    return survivors


def main() -> int:
    """Checks or plants the chosen faults."""
    parser = argparse.ArgumentParser(prog="planted_faults", description="Plants faults in a copy.")
    parser.add_argument("words", nargs="*", help="faults with one of these in the name; else all")
    parser.add_argument("--check", action="store_true", help="only check that every fault applies")
    options = parser.parse_args()
    words = options.words
    faults = [f for f in read_faults() if not words or any(word in f.name for word in words)]
    if not faults:
        parser.error(f"no fault has {' or '.join(words)} in its name")
    return int((check if options.check else plant_each)(faults) > 0)


if __name__ == "__main__":
    sys.exit(main())
