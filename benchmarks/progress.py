"""Compares the advantages of credit rules with the true progress of the steps.

    python benchmarks/progress.py outputs/quickstart

Credits the recorded training rollouts of an ALFWorld run again, by rows of `comparison.py` with
their tuned settings. The progress of a step is the number of actions by which it shortens the
oracle's plan, which reads the true state of the game. No rule and no training sees this plan. The
table has, for each third of the run, the correlation of advantage and progress over the steps of
an iteration (Pearson), and the share of the absolute advantages that have the right sign: positive
with progress, negative without. Both are means over iterations.

A search has no progress until the object is found, so the numbers are for comparisons only. Steps
of states without a plan are left out.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from comparison import RESULTS, VARIANTS
from numpy.typing import NDArray

from trca.algorithms import ALGORITHMS
from trca.algorithms.credit import BoundRule, bind_credit
from trca.common.markdown import markdown_table
from trca.envs.alfworld.binding import bind
from trca.envs.alfworld.data.sources import game_source
from trca.envs.alfworld.game import Game
from trca.envs.alfworld.oracle import true_view
from trca.envs.alfworld.planner import best_way
from trca.envs.alfworld.simulator import Simulator
from trca.records import Rollout, StepBatch, read_rollouts
from trca.rubric import RubricLibrary
from trca.runs.folder import RunFolder
from trca.runs.rollout_files import recorded

ROWS: Final = (
    *("GRPO", "GiGPO", "TRCA", "ShapedReturnToGo", "BEACON"),
    *("TRCA-0.6", "BEACON-0.6", "TRCA-stages"),
)
"""Default rows."""
THIRDS: Final = ("first third", "second", "last")


def rule_of(row: str) -> BoundRule:
    """Returns the credit rule of a row with its tuned settings."""
    algorithm, source, more = VARIANTS.get(row, (row, row, {}))
    tuned = json.loads((RESULTS / "quickstart" / "tuned.json").read_text())
    settings: dict[str, Any] = {}
    for key, value in {**tuned[source]["settings"], **more}.items():
        name, _, part = key.partition(".")
        if part:
            settings.setdefault(name, {})[part] = value
        else:
            settings[name] = value
    config = ALGORITHMS[algorithm].get_default_config().update_from_dict(settings)
    return bind_credit(config.credit, config.parameters())


def plan_lengths(game: Game, rollout: Rollout) -> NDArray[np.float64]:
    """Returns the length of the oracle's plan before each step and at the end; NaN without one."""
    binding, simulator = bind(game.task), Simulator(game)

    def length() -> float:
        if simulator.done:
            return 0.0
        way = best_way(binding, true_view(simulator))
        return float("nan") if way is None or way.missing else float(len(way.actions))

    lengths = [length()]
    for step in rollout.steps:
        if step.accepted:
            simulator.step(step.action)
        lengths.append(length())
    return np.array(lengths)


def agreement(
    advantages: NDArray[np.float64], progress: NDArray[np.float64]
) -> tuple[float, float]:
    """Returns the correlation, and the share of the advantages with the right sign."""
    planned = ~np.isnan(progress)
    advantages, progress = advantages[planned], progress[planned]
    size = np.abs(advantages)
    right = size[(advantages > 0) == (progress > 0)]
    if not size.any():
        return 0.0, 0.0
    return float(np.corrcoef(advantages, progress)[0, 1]), float(right.sum() / size.sum())


def table(results: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """Returns the table, one row per rule."""
    lines = []
    for row, of_iterations in results.items():
        thirds = np.array_split(np.array(of_iterations), 3)
        means = [third.mean(axis=0) for third in thirds]
        lines.append([row, *(f"{r:.2f}" for r, _ in means), *(f"{s:.0%}" for _, s in means)])
    heads = [*(f"correlation, {third}" for third in THIRDS), *(f"right, {t}" for t in THIRDS)]
    return markdown_table(["", *heads], lines)


def main() -> None:
    """Prints the table of a run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", help="run folder, or its name")
    parser.add_argument("--rows", nargs="+", default=ROWS, help="rows of comparison.py")
    arguments = parser.parse_args()
    folder = RunFolder.open(arguments.run, "outputs")
    source = game_source(folder.read_config()["env_config"]["games"])
    categories = RubricLibrary.load("alfworld").categories
    rules = {row: rule_of(row) for row in arguments.rows}
    results: dict[str, list[tuple[float, float]]] = {row: [] for row in rules}
    for path in recorded(folder).values():
        rollouts = [rollout for rollout in read_rollouts(path) if rollout.steps]
        lengths = [plan_lengths(source.load(r.task_id), r) for r in rollouts]
        progress = np.concatenate([-np.diff(each) for each in lengths])
        batch = StepBatch.from_rollouts(rollouts, categories)
        for row, rule in rules.items():
            results[row].append(agreement(rule(batch), progress))
    print(table(results))


if __name__ == "__main__":
    main()
