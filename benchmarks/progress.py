"""Compares the advantages of credit rules with the true progress of the steps.

    python benchmarks/progress.py outputs/alfworld

Credits the recorded training rollouts of an ALFWorld run again, by rows of `comparison.py` with the
settings tuned on `embedded/alfworld`. The progress of a step is the number of actions by which the
step shortens the oracle's plan. The oracle reads the true state of the game. No rule and no
training sees this plan, which is not always a shortest one.

The table has, for each third of the run, the correlation of advantage and progress over the steps
of an iteration (Pearson), and the share of the absolute advantages that have the right sign:
positive with progress, negative without. Both are means over the iterations in which they are
defined.

A visit to a receptacle without the object has no progress, even if the search needs the visit. So
the numbers are for comparisons only. Steps without a plan before or after the action are left out.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from comparison import RESULTS, VARIANTS, variant
from numpy.typing import NDArray

from trca.algorithms import ALGORITHMS
from trca.algorithms.credit import BoundRule, bind_credit
from trca.algorithms.settings.parameters import TextParameters
from trca.common.markdown import markdown_table
from trca.envs.alfworld.binding import bind
from trca.envs.alfworld.data.sources import game_source
from trca.envs.alfworld.env import ENV_ID
from trca.envs.alfworld.game import Game
from trca.envs.alfworld.players import best_way, true_view
from trca.envs.alfworld.simulator import Simulator
from trca.records import Rollout, StepBatch
from trca.runs.folder import RunFolder
from trca.runs.rollout_files import agent_operators, judged, recorded
from trca.tune_configs.files import assign

ROWS: Final = (
    *("GRPO", "GiGPO", "TRCA", "ShapedReturnToGo", "BEACON"),
    *("TRCA-0.6", "BEACON-0.6", "TRCA-stages"),
)
"""Default rows."""
THIRDS: Final = ("first third", "second", "last")


def rule_of(row: str, tuned: Mapping[str, Any]) -> BoundRule:
    """Returns the credit rule of a row with its tuned settings."""
    algorithm, tuned_row, additional = variant(row)
    if tuned_row not in tuned:
        raise SystemExit(f"{tuned_row} has no tuned settings: run comparison.py --tune first")
    settings = assign({}, {**tuned[tuned_row]["settings"], **additional})
    config = ALGORITHMS[algorithm].get_default_config().update_from_dict(settings)
    rule = bind_credit(config.credit, config.settings)
    if rule.reads:
        raise SystemExit(
            f"{row} reads {', '.join(rule.reads)}, which records lack: choose other rows"
        )
    return rule


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
    if simulator.won != rollout.won:
        raise ValueError(f"{rollout.task_id}: the replay ends differently from the record")
    return np.array(lengths)


def agreement(
    advantages: NDArray[np.float64], progress: NDArray[np.float64]
) -> tuple[float, float]:
    """Returns correlation and share of advantages with the right sign; NaN if undefined."""
    planned = ~np.isnan(progress)
    advantages, progress = advantages[planned], progress[planned]
    correlation = share = float("nan")
    if len(advantages) and np.ptp(advantages) > 0 and np.ptp(progress) > 0:
        correlation = float(np.corrcoef(advantages, progress)[0, 1])
    size = np.abs(advantages)
    if size.any():
        share = float(size[(advantages > 0) == (progress > 0)].sum() / size.sum())
    return correlation, share


def table(results: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """Returns the table, one row per rule."""
    lines = []
    for row, of_iterations in results.items():
        thirds = np.array_split(np.array(of_iterations), len(THIRDS))
        means = [np.nanmean(third, axis=0) for third in thirds]
        lines.append([row, *(f"{r:.2f}" for r, _ in means), *(f"{s:.0%}" for _, s in means)])
    heads = [
        *(f"correlation, {third}" for third in THIRDS),
        *(f"right sign, {third}" for third in THIRDS),
    ]
    return markdown_table(["", *heads], lines)


def main() -> None:
    """Prints the table of a run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", help="run folder, or its name")
    parser.add_argument(
        "--rows",
        nargs="+",
        choices=[*ALGORITHMS, *VARIANTS],
        default=ROWS,
        metavar="ROW",
        help="rows of comparison.py",
    )
    arguments = parser.parse_args()
    folder = RunFolder.open(arguments.run, "outputs")
    config = folder.read_config()
    run = TextParameters.resolve(config, f"{folder.name}/config.yaml", need_data=False)
    operators = agent_operators(run.env, run.env_config)
    if run.env != ENV_ID or len(operators) > 1:
        raise SystemExit(f"{folder.path} plays {run.env}: give an ALFWorld run of one agent")
    games = game_source(run.env_config.get("games", "small"))
    tuned = json.loads((RESULTS / "alfworld" / "tuned.json").read_text())
    rules = {row: rule_of(row, tuned) for row in arguments.rows}
    results: dict[str, list[tuple[float, float]]] = {row: [] for row in rules}
    for _, agents in judged(recorded(folder), operators):
        for agent, rollouts in agents.items():
            lengths = [plan_lengths(games.load(r.task_id), r) for r in rollouts]
            progress = np.concatenate([-np.diff(each) for each in lengths])
            batch = StepBatch.from_rollouts(rollouts, operators[agent].categories)
            for row, rule in rules.items():
                results[row].append(agreement(rule(batch), progress))
    if len(results[next(iter(results))]) < len(THIRDS):
        raise SystemExit(f"{folder.path} has fewer than {len(THIRDS)} recorded iterations")
    print(table(results))


if __name__ == "__main__":
    main()
