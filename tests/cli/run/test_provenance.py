"""What tells a report from others."""

from pathlib import Path

from trca.cli.commands.evaluate import _identity
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
        assert _identity(policy, run, {}) == {}
        assert _identity(policy, run, {"lr": 1}) == {"lr": 1}
        found.append(_identity(policy, tmp_path / "reports", {}))
    assert found[0] != found[1]
