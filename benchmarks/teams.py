"""A team against a single agent, at equal trajectories and at equal sampled tokens.

    python benchmarks/teams.py --panels 51 52 53 --docs

A panel is a generator seed with a separate warm start. In each environment and on each panel, a
single agent and a team with one policy per role train by TRCA with the settings of the
environment's preset. Then the trained team plays the held-out panel with its policies swapped
between the roles. The loss measures the specialization of the roles.

Sampled tokens are the tokens of all responses, including the messages of a team. The comparison at
equal tokens uses the total of the cheaper run. Runs resume and are stored as in ``comparison.py``.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import numpy as np
from comparison import (
    COMMON,
    PANELS,
    RESULTS,
    Curves,
    Job,
    Rows,
    cell,
    command_line,
    into_docs,
    lead,
    origin,
    run_all,
)

from trca.cli.show.figures import draw_comparison
from trca.common.files import write_text
from trca.common.markdown import markdown_table
from trca.envs.teams.team import Team
from trca.runs.curve import column, moving_mean

ROOT: Final = Path(__file__).parents[1]
TEAMS: Final = {
    "embedded/alfworld": "alfworld_planner",
    "webshop": "webshop_planner",
    "searchqa": "searchqa_searcher",
}


def job(config: str, panel: int, team: bool, folder: Path, extra: list[str]) -> Job:
    """Returns the run of an agent or of the team."""
    settings = [f"env_config.team={TEAMS[config]}", "role_policies=own"] if team else []
    kind = "team" if team else "agent"
    return Job(config, "TRCA", (), panel, folder / config / kind, (*settings, *extra))


def tokens(rows: Rows) -> Any:
    """Returns the sampled tokens up to each iteration, float64 (iterations,)."""
    steps = np.diff(column(rows, "env_steps"), prepend=0.0)
    return np.cumsum(steps * column(rows, "response_length"))


def play_swapped(trained: Job) -> float:
    """Returns the held-out success of a trained team with swapped policies."""
    roles = list(Team.load(TEAMS[trained.config]).roles)
    mapping = ", ".join(f"{a}: {b}" for a, b in zip(roles, reversed(roles), strict=True))
    folder = trained.run / "swapped"
    if not list(folder.glob("*.json")):
        command = [sys.executable, "-m", "trca", "evaluate", f"{trained.run}@last"]
        command += ["--set", f"role_policies={{{mapping}}}", "--output", str(folder)]
        command += ["--tasks", str(COMMON["evaluation_tasks"])]
        command += ["--seeds", str(COMMON["evaluation_rollouts"])]
        subprocess.run(command, check=True, cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"})
    (report,) = folder.glob("*.json")
    won = [outcome["won"] for outcome in json.loads(report.read_text())["outcomes"]]
    return float(np.mean([each for each in won if each is not None]))


def table(agents: list[Rows], teams: list[Rows], mixed: list[float]) -> str:
    """Returns a table of the success of agent and team, and of the loss with swapped policies."""

    def smooth(rows: Rows) -> Any:
        return moving_mean(column(rows, "success_rate"))

    def at_equal_tokens(rows: Rows, other: Rows) -> float:
        return float(
            np.interp(min(tokens(rows)[-1], tokens(other)[-1]), tokens(rows), smooth(rows))
        )

    measures = {
        "training, at equal trajectories": [
            [smooth(rows)[-1] for rows in each] for each in (agents, teams)
        ],
        "training, at equal tokens": [
            [at_equal_tokens(*pair) for pair in zip(*both, strict=True)]
            for both in ((agents, teams), (teams, agents))
        ],
        "held out, end": [
            [rows[-1]["evaluation/success_rate"] for rows in each] for each in (agents, teams)
        ],
    }
    lines = [
        [name, cell(agent, False), cell(team, False), lead(team, agent)]
        for name, (agent, team) in measures.items()
    ]
    totals = [[float(tokens(rows)[-1]) for rows in each] for each in (agents, teams)]
    lines.append(["sampled tokens", *(cell(values, True) for values in totals), ""])
    loss = lead(mixed, measures["held out, end"][1])
    swapped = ["held out, policies swapped", "", cell(mixed, False), f"{loss} against the team"]
    return markdown_table(["", "agent", "team", "difference, in points"], [*lines, swapped])


def main() -> None:
    """Trains agents and teams, and prints the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--panels", type=int, nargs="+", required=True, help="generator seeds")
    parser.add_argument("--configs", nargs="+", default=list(TEAMS), choices=list(PANELS))
    parser.add_argument("--side-by-side", type=int, default=2, help="runs at a time")
    parser.add_argument("--set", action="append", default=[], help="key=value for every run")
    parser.add_argument("--output", type=Path, default=ROOT / "outputs" / "teams")
    parser.add_argument(
        "--docs",
        action="store_true",
        help="write the result to docs/results_environments.md, curves to benchmarks/results",
    )
    arguments = parser.parse_args()
    folder = arguments.output.resolve()
    results = RESULTS / "teams" if arguments.docs else folder
    results.mkdir(parents=True, exist_ok=True)
    curves = Curves(results / "runs.jsonl")
    path = results / "swapped.json"
    swapped = json.loads(path.read_text()) if path.exists() else {}
    jobs = {
        config: [
            [job(config, panel, team, folder, arguments.set) for panel in arguments.panels]
            for team in (False, True)
        ]
        for config in arguments.configs
    }
    in_turns = [job for each in jobs.values() for pair in zip(*each, strict=True) for job in pair]
    run_all(in_turns, arguments.side_by_side, curves)
    text = command_line()
    about = f"panels (generator seeds) {', '.join(map(str, arguments.panels))}"
    for config, (agents, teams) in jobs.items():
        for team in teams:
            if team.run.name not in swapped:
                swapped[team.run.name] = play_swapped(team)
                write_text(path, json.dumps(swapped, indent=1) + "\n")
        agent_rows, team_rows = ([curves.rows(each) for each in kind] for kind in (agents, teams))
        mixed = [swapped[team.run.name] for team in teams]
        title = f"{config}: an agent, and {TEAMS[config]} with a policy for each role"
        text += f"{title}.\n\n{table(agent_rows, team_rows, mixed)}\n"
        text += origin([*agents, *teams], curves)
        images = ROOT / "docs" / "images" if arguments.docs else folder
        picture = images / f"team-{Path(config).name}.png"
        draw_comparison({"agent": agent_rows, "team": team_rows}, picture, title, about)
        text += (
            f"\n![Success of the agent and the team over trajectories](images/{picture.name})\n\n"
        )
    print(text)
    if arguments.docs:
        into_docs("teams", text)


if __name__ == "__main__":
    main()
