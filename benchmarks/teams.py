"""A team against a single agent, at equal trajectories and at equal sampled tokens.

    python benchmarks/teams.py --panels 51 52 53 --docs

In each environment and on each panel, a generator seed with a warm start of its own, an agent and
a team whose roles have a policy each train by TRCA with the settings of the environment's preset.
Then the trained team plays the held-out panel with its policies swapped between the roles: what
it loses is what the roles have learned that is theirs alone.

Sampled tokens are those of all responses, the messages of a team among them; at equal tokens both
stand at what the cheaper run sampled in all. Runs resume, and are kept, as those of
``comparison.py``.
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
from trca.envs.teams.team import Team
from trca.runs.curve import column, moving_mean

ROOT: Final = Path(__file__).parents[1]
TEAMS: Final = {
    "quickstart": "alfworld_planner",
    "webshop": "webshop_planner",
    "searchqa": "searchqa_searcher",
}


def job(config: str, panel: int, team: bool, folder: Path, extra: list[str]) -> Job:
    """The run of an agent, or of the team."""
    own = [f"env_config.team={TEAMS[config]}", "role_policies=own"] if team else []
    kind = "team" if team else "agent"
    return Job(config, "TRCA", (), panel, folder / config / kind, (*own, *extra))


def tokens(rows: Rows) -> Any:
    """Tokens sampled up to each iteration, float64 (iterations,)."""
    steps = np.diff(column(rows, "env_steps"), prepend=0.0)
    return np.cumsum(steps * column(rows, "response_length"))


def play_swapped(trained: Job) -> float:
    """Held-out success of a trained team whose policies play each other's roles."""
    roles = list(Team.load(TEAMS[trained.config]).roles)
    mapping = ", ".join(f"{a}: {b}" for a, b in zip(roles, reversed(roles), strict=True))
    folder = trained.run / "swapped"
    if not list(folder.glob("*.json")):
        command = [sys.executable, "-m", "trca.cli", "evaluate", f"{trained.run}@last"]
        command += ["--set", f"role_policies={{{mapping}}}", "--output", str(folder)]
        command += ["--tasks", str(COMMON["evaluation_tasks"])]
        command += ["--seeds", str(COMMON["evaluation_rollouts"])]
        subprocess.run(command, check=True, cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"})
    (report,) = folder.glob("*.json")
    won = [outcome["won"] for outcome in json.loads(report.read_text())["outcomes"]]
    return float(np.mean([each for each in won if each is not None]))


def table(agents: list[Rows], teams: list[Rows], mixed: list[float]) -> str:
    """Success of the agent and of the team, and what the team loses with its policies swapped."""

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
    lines = ["| | agent | team | difference, in points |", "|---|---:|---:|---:|"]
    for name, (own, theirs) in measures.items():
        cells = [cell(own, False), cell(theirs, False), lead(theirs, own)]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    own, theirs = ([float(tokens(rows)[-1]) for rows in each] for each in (agents, teams))
    lines.append(f"| sampled tokens | {cell(own, True)} | {cell(theirs, True)} | |")
    loss = lead(mixed, measures["held out, end"][1])
    lines.append(
        f"| held out, policies swapped | | {cell(mixed, False)} | {loss} against the team |"
    )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Reads the arguments and goes."""
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
        help="put the result into docs/results.md, curves into benchmarks/results",
    )
    arguments = parser.parse_args()
    folder = arguments.output.resolve()
    results = RESULTS / "teams" if arguments.docs else folder
    results.mkdir(parents=True, exist_ok=True)
    curves = Curves(results / "runs.jsonl")
    known = results / "swapped.json"
    swapped = json.loads(known.read_text()) if known.exists() else {}
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
                write_text(known, json.dumps(swapped, indent=1) + "\n")
        one, other = ([curves.rows(each) for each in kind] for kind in (agents, teams))
        mixed = [swapped[team.run.name] for team in teams]
        title = f"{config}: an agent, and {TEAMS[config]} with a policy for each role"
        text += f"{title}.\n\n{table(one, other, mixed)}\n{origin([*agents, *teams], curves)}"
        picture = (ROOT / "docs" / "images" if arguments.docs else folder) / f"team-{config}.png"
        draw_comparison({"agent": one, "team": other}, picture, title, about)
        text += (
            f"\n![Success of the agent and the team over trajectories](images/{picture.name})\n\n"
        )
    print(text)
    if arguments.docs:
        into_docs("teams", text)


if __name__ == "__main__":
    main()
