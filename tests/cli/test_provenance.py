"""What a report says of the weights, and what tells it from others."""

from pathlib import Path

from trca.cli.checkpoints import Policy
from trca.cli.commands.evaluate import _identity
from trca.cli.provenance import weights_hash
from trca.cli.selection import Selection
from trca.tune_configs.files import read
from trca.tune_configs.settings import RunSettings


def written(folder: Path, **files: str) -> str:
    for name, text in files.items():
        path = folder / name / "model.safetensors"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return str(folder)


def test_weights_are_hashed_and_those_of_all_roles(tmp_path: Path) -> None:
    one = weights_hash(written(tmp_path / "one", model="a"))
    assert len(one) == 64
    assert one == weights_hash(written(tmp_path / "same", model="a"))
    assert one != weights_hash(written(tmp_path / "other", model="b"))
    team = weights_hash(written(tmp_path / "team", planner="a", executor="b"))
    swapped = weights_hash(written(tmp_path / "swapped", planner="b", executor="a"))
    assert len({one, team, swapped}) == 3
    (tmp_path / "none").mkdir()
    assert weights_hash(str(tmp_path / "none")) == ""


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
