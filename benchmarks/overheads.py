"""Where the seconds of an iteration go, from what a run wrote down.

    python benchmarks/overheads.py outputs/quickstart

Generation is the model, environment the games with their text, judging the facts, contexts and
rubric operators, credit the advantages and the rows of tensors, learning the updates, sync the
weights' way back to the runners. What is left over is RLlib's own work, evaluation, and writing
files.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from trca.runs.folder import RunFolder

PHASES = ("generation", "environment", "judging", "credit", "learning", "sync")
LIMIT = 0.02
"""Judging and credit together may take this share of an iteration."""


def mean_seconds(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Mean seconds by phase, over iterations without an evaluation where there are any."""
    plain = [row for row in rows if "evaluation/n" not in row] or rows
    seconds = {
        phase: float(np.mean([row.get(f"timing/{phase}", 0.0) for row in plain]))
        for phase in PHASES
    }
    whole = float(np.mean([row["seconds"] for row in plain]))
    return {**seconds, "rest": whole - sum(seconds.values()), "iteration": whole}


def main() -> int:
    """Prints the table; 1 when judging and credit take more than their share."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("run", help="a run folder")
    rows = RunFolder.open(parser.parse_args().run).metrics()
    seconds = mean_seconds(rows)
    print(f"{len(rows)} iterations\n\n| phase | seconds | share |\n|---|---:|---:|")
    for phase, value in seconds.items():
        print(f"| {phase} | {value:.3f} | {value / seconds['iteration']:.1%} |")
    share = (seconds["judging"] + seconds["credit"]) / seconds["iteration"]
    print(f"\njudging and credit together: {share:.2%} (at most {LIMIT:.0%})")
    return int(share > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
