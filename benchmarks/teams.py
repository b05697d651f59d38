"""A team against a single agent, at equal trajectories and at equal sampled tokens.

    python benchmarks/teams.py --panels 51 52 53

In each environment and on each panel, a generator seed with a warm start of its own, an agent and
a team whose roles have a policy each train by TRCA with the settings of the environment's preset.
Then the trained team plays the held-out panel with its policies swapped between the roles: what
it loses is what the roles have learned that is theirs alone.

Sampled tokens are those of all responses, the messages of a team among them; at equal tokens both
stand at what the cheaper run sampled in all. Runs resume as those of ``comparison.py`` do.
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
from comparison import COMMON, PANELS, Job, cell, leads, run_all

from trca.cli.curve import column, draw_comparison, moving_mean
from trca.common.files import write_text
from trca.envs.teams.team import Team

ROOT: Final = Path(__file__).parents[1]
TEAMS: Final = {
    "quickstart": "alfworld_planner",
    "webshop": "webshop_planner",
    "searchqa": "searchqa_searcher",
}

Rows = list[dict[str, Any]]


def job(config: str, panel: int, team: bool, folder: Path, extra: list[str]) -> Job:
    """The run of an agent, or of the team."""
    own = [f"env_config.team={TEAMS[config]}", "role_policies=own"] if team else []
    kind = "team" if team else "agent"
    return Job(config, "TRCA", (), panel, folder / config / kind, (*own, *extra))


def tokens(rows: Rows) -> Any:
    """Tokens sampled up to each iteration, float64 (iterations,)."""
    steps = np.diff(column(rows, "env_steps"), prepend=0.0)
    return np.cumsum(steps * column(rows, "response_length"))


def swapped(trained: Job) -> float:
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


def section(config: str, panels: list[int], folder: Path, extra: list[str]) -> str:
    """The table of an environment; its figure goes beside the runs."""
    agents, teams = (
        [job(config, panel, team, folder, extra) for panel in panels] for team in (False, True)
    )
    one, other = ([each.metrics() for each in of_kind] for of_kind in (agents, teams))
    success = {"agent": one, "team": other}
    lasting = [
        [moving_mean(column(rows, "success_rate"))[-1] for rows in runs] for runs in (one, other)
    ]
    held_out = [[rows[-1]["evaluation/success_rate"] for rows in runs] for runs in (one, other)]
    level = [
        [
            float(np.interp(min(tokens(a)[-1], tokens(b)[-1]), tokens(rows), smooth))
            for a, b, rows in zip(one, other, runs, strict=True)
            for smooth in [moving_mean(column(rows, "success_rate"))]
        ]
        for runs in (one, other)
    ]
    spent = [[float(tokens(rows)[-1]) for rows in runs] for runs in (one, other)]
    measures = {
        "training, at equal trajectories": lasting,
        "training, at equal tokens": level,
        "held out, end": held_out,
    }
    lines = ["| | agent | team | team minus agent, in points |", "|---|---:|---:|---:|"]
    for name, (own, theirs) in measures.items():
        mean, low, high = (100 * value for value in leads(theirs, own))
        cells = [cell(own, False), cell(theirs, False), f"{mean:+.1f} ({low:+.1f} to {high:+.1f})"]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    lines.append(f"| sampled tokens | {cell(spent[0], True)} | {cell(spent[1], True)} | |")
    mixed = [swapped(each) for each in teams]
    mean, low, high = (100 * value for value in leads(mixed, held_out[1]))
    lines.append(
        f"| held out, policies swapped | | {cell(mixed, False)} |"
        f" {mean:+.1f} ({low:+.1f} to {high:+.1f}) beside the team |"
    )
    about = f"panels (generator seeds) {', '.join(map(str, panels))}"
    title = f"{config}: an agent, and {TEAMS[config]} with a policy a role"
    draw_comparison(success, folder / f"{config}.png", title, about)
    hours = sum(float(np.nansum(column(each.metrics(), "seconds"))) for each in agents + teams)
    return "\n".join([f"{title}; {about}, {hours / 3600:.1f} hours.", "", *lines]) + "\n"


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
    arguments = parser.parse_args()
    folder = arguments.output.resolve()
    jobs = [
        job(config, panel, team, folder, arguments.set)
        for config in arguments.configs
        for panel in arguments.panels
        for team in (False, True)
    ]
    run_all(jobs, arguments.side_by_side)
    parts = [section(c, arguments.panels, folder, arguments.set) for c in arguments.configs]
    write_text(folder / "teams.md", "\n".join(parts))
    print("\n".join(parts))


if __name__ == "__main__":
    main()
