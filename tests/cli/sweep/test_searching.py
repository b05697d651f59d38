"""A real sweep with Optuna and ASHA by the real command: killed and resumed."""

import json
import os
import sys

import pytest
import yaml

from tests.cli.sweep.conftest import COMMAND, EASY, EASY_RUN, kill_once, succeed

SEARCH = {
    "base": {**EASY_RUN, "tracking": ["trackio"]},
    "sample": {"env_config.ease": {"uniform": [0, 1]}},
    "samples": 3,
    "sample_seed": 6,
    "search": {"optuna": {"startup_points": 2}},
    "scheduler": {"asha": {"reduction_factor": 2}},
    "seeds": [0],
    "side_by_side": 1,
}

LISTED = """
import trackio

for run in trackio.Api().runs("trca"):
    print(run.config["_Group"], run.name)
"""


def first_of_two_ended(folder):
    """Whether the first of two started trials has ended."""
    trials = [path.parent for path in sorted(folder.glob("trials/*/trial.json"))]
    return len(trials) >= 2 and (trials[0] / "evaluation.json").exists()


@pytest.mark.slow
def test_a_sweep_killed_without_a_word_resumes_to_the_same_table(tmp_path, monkeypatch):
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "easy.py").write_text(EASY)
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(SEARCH))
    output = succeed([*COMMAND, "mine.yaml", "--name=whole"])
    whole = tmp_path / "outputs" / "whole"
    first, *others = json.loads((whole / "sweep.json").read_text())
    assert first["n"] == 1
    assert first["success_rate"]["mean"] == pytest.approx(
        first["point"]["env_config.ease"], abs=0.1
    )
    stopped = [row for row in others if row["stopped"]]
    assert stopped, "no trial was stopped early"
    for row in stopped:
        (stop,) = row["stopped"]
        assert (row["n"], stop["iteration"], stop["trajectories"]) == (0, 1, 20)
        assert row["point"]["env_config.ease"] < first["point"]["env_config.ease"]
        assert f"iteration 1, 20 rollouts, success_rate {stop['value']:.3g}" in output
        assert not os.path.exists(f"{stop['run']}/evaluation.json")
    assert others[-1]["point"]["env_config.ease"] > 0.8  # Optuna prefers easy tasks

    killed = tmp_path / "outputs" / "killed"
    kill_once([*COMMAND, "mine.yaml", "--name=killed"], lambda: first_of_two_ended(killed))
    assert not (killed / "sweep.md").exists()
    (tmp_path / "easy.py").unlink()  # the sweep has a copy
    succeed([*COMMAND, "--resume=killed"])
    assert (killed / "sweep.md").read_text() == (whole / "sweep.md").read_text()

    # A trial that was killed and resumed is one run of the tracker.
    tracked = [line.split() for line in succeed([sys.executable, "-c", LISTED]).splitlines()]
    names = [name.rpartition("-")[0] for group, name in tracked if group == "killed"]
    paths = (killed / "trials").iterdir()
    assert sorted(names) == sorted(path.name for path in paths if path.is_dir())
