"""The data of the page leads to the same rollout in the terminal."""

import shlex
import shutil

import pytest

from tests.cli.calls import done, trca
from trca.cli.view.runs import RecordedRun, stops
from trca.records import read_rollouts, write_rollouts
from trca.records.rollout import Failure
from trca.runs.folder import RunFolder
from trca.runs.rollout_files import rollout_file

FILE = "rollouts/iteration_000001/train.parquet"


@pytest.fixture
def mixed_team(recorded_team, tmp_path, monkeypatch):
    """A run in ``outputs``: training rollouts in mixed order, with missing rollouts."""
    monkeypatch.chdir(tmp_path)
    folder = shutil.copytree(recorded_team, tmp_path / "outputs" / "team")
    train = folder / FILE
    shutil.copy(train, train.with_name("eval.parquet"))
    rollouts = list(read_rollouts(train))
    missing = [Failure(1, "t", 2, "")]
    write_rollouts(train, [*rollouts[::-2], *rollouts[::2]], failures=missing)
    return RecordedRun(RunFolder(folder))


@pytest.mark.parametrize("kind", ["train", "eval"])
def test_the_inspect_command_of_a_rollout_shows_this_rollout(mixed_team, kind):
    outputs = set()
    for group in (mixed_team.group(kind, 1, number) for number in (1, 0)):
        for rollout in group["rollouts"]:
            program, *arguments = shlex.split(rollout["inspect"])
            assert program == "trca"
            shown = done(*arguments)
            assert group["task"] in shown
            actions = [line[2:] for line in shown.splitlines() if line.startswith("> ")]
            assert actions == [step["action"] for step in rollout["steps"]]
            assert ("\nsuccess after" in shown) == rollout["won"]
            outputs.add(shown)
    assert len(outputs) == 8  # two groups of two episodes of two roles


def test_the_list_has_groups_with_operators_missing_rollouts_and_their_order(mixed_team):
    listing = mixed_team.index("train", 1)
    rollouts = list(read_rollouts(mixed_team.folder.path / FILE))
    assert [group["group"] for group in listing.groups] == [1, 0]
    assert [group["missing"] for group in listing.groups] == [2, 0]
    for group in listing.groups:
        played = [rollouts[number] for number in listing.numbers[group["group"]]]
        for summary, rollout in zip(group["rollouts"], played, strict=True):
            assert (summary["index"], summary["agent"]) == (rollout.index, rollout.agent_id)
            assert summary["steps"] == len(rollout.steps)
            fired = {rollout.operators[k] for s in rollout.steps for k in s.judgments.nonzero()[0]}
            assert {listing.operators[place] for place in summary["fired"]} == fired


def test_a_file_that_changes_is_read_again_and_a_lost_group_is_listed(mixed_team):
    first = mixed_team.index("train", 1)
    assert mixed_team.index("train", 1) is first
    write_rollouts(mixed_team.folder.path / FILE, [], failures=[Failure(5, "t", 2, "late")])
    assert mixed_team.index("train", 1).groups == [
        {"group": 5, "task": "t", "type": "", "missing": 2, "rollouts": []}
    ]
    with pytest.raises(KeyError):
        mixed_team.group("train", 1, 5)


def test_json_lines_of_an_earlier_version_are_listed_alike(mixed_team):
    path = mixed_team.folder.path / FILE
    groups, whole = mixed_team.index("train", 1).groups, mixed_team.group("train", 1, 0)
    output = trca("inspect", "team", "--json").output
    path.with_suffix(".jsonl").write_text(output)
    path.unlink()
    assert mixed_team.index("train", 1).groups == groups
    assert mixed_team.group("train", 1, 0) == whole


@pytest.mark.parametrize(
    ("counts", "pairs", "start"),
    [
        (  # 144 is as near to 96 as to 192
            [{1: 96, 2: 192, 3: 288}, {1: 72, 2: 144, 3: 216, 4: 288, 5: 360}],
            [(1, 1), (1, 2), (2, 3), (3, 4), (3, 5)],
            (3, 4),
        ),
        ([{1: 96, 2: 240}, {1: 96, 2: 250, 3: 400}], [(1, 1), (2, 2), (2, 3)], (2, 2)),
        ([{1: 0, 3: 0}, {1: 9}], [(1, 1), (3, 1)], (1, 1)),  # one run has no metrics: by number
        ([{1: 96, 2: 0}], [(1,), (2,)], (2,)),  # the metrics of iteration 2 are not written yet
        ([{1: 96}, {}], [(1, None)], (1, None)),
    ],
)
def test_two_runs_are_shown_at_the_nearest_numbers_of_trajectories(tmp_path, counts, pairs, start):
    runs = []
    for number, reached in enumerate(counts):
        folder = RunFolder.create(tmp_path, f"run{number}")
        for iteration, trajectories in reached.items():
            rollout_file(folder, "train", iteration).touch()
            if trajectories:
                folder.append_metrics({"iteration": iteration, "trajectories": trajectories})
        runs.append(RecordedRun(folder))
    shown = stops(runs, "train")
    assert [stop["at"] for stop in shown] == pairs
    assert [stop["at"] for stop in shown if stop["start"]] == [start]
