"""Wins of each role in matches of trained, starting and random players, on the held-out starts.

python matches.py MODEL [--rollouts 40]

MODEL is the folder that ``trca export RUN@last --to MODEL`` writes, with a policy for each role.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
from trca_textarena.env import ROLES

from trca.algorithms.base.evaluation import evaluate_panel, local_runner
from trca.algorithms.settings.parameters import TextParameters
from trca.common.markdown import markdown_table
from trca.records import episodes
from trca.tune_configs.files import assign, read

SETTINGS = read(str(Path(__file__).with_name("train.yaml")))
PLAYERS = ("trained", "start", "random")


def wins(trained: Path, start: Path, first: str, second: str, rollouts: int) -> list[bool]:
    """Whether the first player wins, for each game of a match."""
    players = dict(zip(ROLES, (first, second), strict=True))
    randoms = [role for role, player in players.items() if player == "random"]
    with tempfile.TemporaryDirectory() as folder:
        for file in start.iterdir():
            (Path(folder) / file.name).symlink_to(file)
        for role, player in players.items():
            (Path(folder) / role).symlink_to(trained / role if player == "trained" else start)
        given = {
            "frozen_copies": 0,
            "model": folder,
            "env_config.random_role": randoms[0] if randoms else None,
        }
        config = TextParameters.resolve(assign(SETTINGS, given)).algorithm_config()
        runner = local_runner(config)
        evaluation = evaluate_panel(runner, runner.panel("test"), rollouts=rollouts)
        runner.stop()
    return [rollout.won for rollout in episodes(evaluation.rollouts)]


def cell(won: list[bool]) -> str:
    """The share of wins with a 95% interval of the normal distribution, in percent."""
    rate = float(np.mean(won))
    return f"{100 * rate:.0f}% ± {196 * (rate * (1 - rate) / len(won)) ** 0.5:.0f}"


def main() -> None:
    """Prints a table: a row for each first player, a column for each second player."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--rollouts", type=int, default=40, help="games of each start")
    given = parser.parse_args()
    config = TextParameters.resolve(SETTINGS).algorithm_config()
    trained, start = given.model.absolute(), Path(config.resolved_model())
    lines = [
        [first]
        + [
            ""
            if first == second == "random"
            else cell(wins(trained, start, first, second, given.rollouts))
            for second in PLAYERS
        ]
        for first in PLAYERS
    ]
    print(
        markdown_table(["wins of first", *(f"against second: {each}" for each in PLAYERS)], lines)
    )


if __name__ == "__main__":
    main()
