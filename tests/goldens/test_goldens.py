"""Settings, help, environments, training and old runs are those of the recorded goldens.

`tests.goldens.record` describes the files and writes them again.
"""

import difflib
import json
import math
import tarfile

import pytest

from tests.cli.calls import done
from tests.goldens import record
from trca.algorithms import ALGORITHMS
from trca.cli.view.runs import RecordedRun
from trca.runs.folder import RunFolder

RUNS = ["trained", "imitated", "swept/trials/00*"]
AMPLIFIED = {"StepSearch": 1}
"""Iterations to compare of an algorithm whose later updates amplify the rounding of a CPU."""
TRAINED = [n if n == "TRCA" else pytest.param(n, marks=pytest.mark.slow) for n in ALGORITHMS]


def recorded(name):
    return (record.FOLDER / name).read_text()


def assert_same(now, before):
    lines = difflib.unified_diff(before.splitlines(), now.splitlines(), "golden", "now", n=1)
    assert now == before, "\n".join([*lines][:60])


def test_every_config_has_its_settings():
    assert_same(record.settings(), recorded("settings.yaml"))


def test_every_command_has_its_help():
    assert_same(record.help_texts(), recorded("help.txt"))


def test_a_random_policy_sees_the_same_episodes():
    before, now = json.loads(recorded("episodes.json")), json.loads(record.episodes())
    for name in before:
        assert now[name]["first"] == before[name]["first"]
    assert now == before


@pytest.mark.parametrize("name", TRAINED)
def test_an_algorithm_trains_as_before(cluster, name):
    rows = record.trained(name)
    assert sorted(rows[0]) == json.loads(recorded("metric_names.json"))[name]
    golden = json.loads(recorded("training.json"))[name]
    assert len(rows) == len(golden)
    for now, before in [*zip(rows, golden, strict=True)][: AMPLIFIED.get(name)]:
        now = json.loads(json.dumps(record.timeless(now)))
        assert now.keys() == before.keys()
        wrong = {k: (now[k], before[k]) for k in now if not same(now[k], before[k])}
        assert not wrong


def same(now, before):
    """Equal up to the rounding of another CPU."""
    if isinstance(before, float):
        near = math.isclose(now, before, rel_tol=1e-4, abs_tol=1e-6)
        return near or (math.isnan(now) and math.isnan(before))
    return now == before


@pytest.fixture
def runs(tmp_path):
    with tarfile.open(record.FOLDER / "runs.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path


def test_commands_read_the_runs_of_an_earlier_version(runs, tmp_path):
    folders = [path for pattern in RUNS for path in sorted(runs.glob(pattern))]
    assert len(folders) == 4
    for folder in folders:
        run = RecordedRun(RunFolder.open(folder))
        [*_, last] = run.about()["iterations"]["train"]
        groups = run.index("train", last).groups
        assert groups
        assert groups[0]["task"] in " ".join(done("inspect", folder).split())
        done("recredit", folder, "--credit=gigpo", f"--output={tmp_path}/change.json")
        assert json.loads((tmp_path / "change.json").read_text())
    table = done("report", *folders, "--by=iterations", f"--output={tmp_path}/report")
    assert all(name in table for name in ("TRCA", "GRPO", "Imitation"))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["trained", "imitated"])
def test_a_run_of_an_earlier_version_is_continued_and_evaluated(cluster, runs, name):
    """A LoRA checkpoint holds the path of its base, so only a new one can be evaluated here."""
    done("train", f"--resume={runs / name}", "--iterations=3")
    assert [row["iteration"] for row in RunFolder.open(runs / name).metrics()] == [1, 2, 3]
    assert "2 tasks" in done("evaluate", f"{runs / name}@last", "--tasks=2")
