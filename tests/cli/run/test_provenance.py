"""Reports of several runs, and the record of versions and commits."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import trca
from trca.cli.commands.evaluate import identity
from trca.cli.run.checkpoints import Policy
from trca.runs.selection import Selection
from trca.tune_configs.files import read
from trca.tune_configs.settings import RunSettings


def test_reports_of_two_runs_in_one_folder_have_names_of_their_own(tmp_path: Path) -> None:
    settings = RunSettings.resolve(read("quickstart"), "quickstart")
    chosen = Selection("best", 12)
    found = []
    for name in ("a", "b"):
        run = tmp_path / name
        model = run / "checkpoints" / "iteration_000012" / "model"
        policy = Policy(f"{run}@best", "best", settings, str(model), run, chosen)
        assert identity(policy, run, {}) == {}
        assert identity(policy, run, {"lr": 1}) == {"lr": 1}
        found.append(identity(policy, tmp_path / "reports", {}))
    assert found[0] != found[1]


@pytest.mark.parametrize("changed", ["", "rubric/rewards.py"])
def test_a_change_of_any_file_of_the_package_is_a_modification(
    tmp_path: Path, changed: str
) -> None:
    left_out = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(trca.__file__).parent, tmp_path / "trca", ignore=left_out)
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    for arguments in (["init"], ["add", "."], ["commit", "-m", "all"]):
        subprocess.run([*git, *arguments], check=True, capture_output=True)
    if changed:
        with (tmp_path / "trca" / changed).open("a") as file:
            file.write("# changed\n")
    code = "import json; from trca.runs.provenance import versions; print(json.dumps(versions()))"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert json.loads(done.stdout)["modified"] is bool(changed), done.stderr
