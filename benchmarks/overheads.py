"""Seconds of the phases of an iteration, from the metrics of a run.

    python benchmarks/overheads.py outputs/quickstart

The phases: generation by the model; environment steps; judging (facts, contexts and rubric
operators); credit (advantages and rows of tensors); learning (updates); sync of the weights to the
env runners. The rest is RLlib's work, evaluation and writing of files.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from trca.common.markdown import markdown_table
from trca.runs.folder import RunFolder

PHASES = ("generation", "environment", "judging", "credit", "learning", "sync")
LIMIT = 0.02
"""Largest share of judging and credit in an iteration."""


def mean_seconds(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Returns mean seconds by phase, over iterations without an evaluation if possible."""
    plain = [row for row in rows if "evaluation/n" not in row] or rows
    seconds = {
        phase: float(np.mean([row.get(f"timing/{phase}", 0.0) for row in plain]))
        for phase in PHASES
    }
    total = float(np.mean([row["seconds"] for row in plain]))
    return {**seconds, "rest": total - sum(seconds.values()), "iteration": total}


def main() -> int:
    """Prints the table; returns 1 if judging and credit exceed the limit."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("run", help="a run folder")
    rows = RunFolder.open(parser.parse_args().run).metrics()
    seconds = mean_seconds(rows)
    lines = [
        (phase, f"{value:.3f}", f"{value / seconds['iteration']:.1%}")
        for phase, value in seconds.items()
    ]
    print(f"{len(rows)} iterations\n")
    print(markdown_table(("phase", "seconds", "share"), lines))
    share = (seconds["judging"] + seconds["credit"]) / seconds["iteration"]
    print(f"judging and credit together: {share:.2%} (at most {LIMIT:.0%})")
    return int(share > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
