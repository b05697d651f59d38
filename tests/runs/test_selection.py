"""The selection of the best checkpoint, and the tasks that a report about it leaves out."""

import pytest

from trca.cli.run.checkpoints import find_checkpoint
from trca.envs.panel import Panel
from trca.runs.folder import RunFolder
from trca.runs.provenance import panel_record
from trca.runs.selection import Selection, is_best
from trca.tune_configs.files import ConfigError, read

TRAIN = Panel("Rooms", "train", ("a", "b"))
HELD_OUT = Panel("Rooms", "valid", tuple(f"t{k}" for k in range(4)))


def rows(*successes):
    """Rows of iterations, from pairs of training success and held-out success or `None`."""
    return [
        {"iteration": number, "success_rate": training}
        | ({} if held_out is None else {"evaluation/success_rate": held_out})
        for number, (training, held_out) in enumerate(successes, start=1)
    ]


def recorded(folder, successes):
    """A run with the checkpoints that training would select."""
    run = RunFolder.create(folder, "run")
    run.write_config(read("quickstart"))
    run.write_json(
        "panels.json", {"train": panel_record(TRAIN), "evaluation": panel_record(HELD_OUT)}
    )
    whole = rows(*successes)
    for number, row in enumerate(whole, start=1):
        run.append_metrics(row)
        run.save_checkpoint(number, lambda to: (to / "w").touch(), is_best(whole[:number]))
    return run


@pytest.mark.parametrize(
    ("successes", "best"),
    [
        ([(0.1, None), (0.5, None), (0.2, None)], 2),
        ([(0.9, 0.2), (0.1, 0.6), (0.5, 0.4)], 2),
        ([(0.9, None), (0.1, 0.2), (0.95, None)], 2),
        ([(0.1, 0.6), (0.2, 0.3), (0.3, 0.6), (0.4, 0.5)], 3),
        ([(0.1, None), (0.2, None), (0.3, 0.0)], 3),
    ],
    ids=["training", "held out first", "held out alone", "newest of equals", "first evaluation"],
)
def test_the_best_checkpoint_has_the_highest_success_measured(tmp_path, successes, best):
    run = recorded(tmp_path, successes)
    assert run.checkpoint_iteration("best") == best
    assert run.checkpoint_iteration("last") == len(successes)


def test_a_run_without_any_success_has_its_newest_checkpoint_as_best(tmp_path):
    run = RunFolder.create(tmp_path, "run")
    run.write_config(read("quickstart"))
    for number in (1, 2):
        run.append_metrics({"iteration": number, "teacher/success_rate": 1.0})
        run.save_checkpoint(number, lambda to: (to / "w").touch(), is_best(run.metrics()))
    selection = Selection.of(run, "best")
    assert (selection.iteration, selection.overlap(TRAIN)) == (2, [])
    assert selection.words() == "best, iteration 2: selected without a metric"


def test_a_run_is_its_last_checkpoint_unless_the_best_is_named(tmp_path):
    run = recorded(tmp_path, [(0.1, 0.6), (0.2, 0.3)])
    names = (run.path, f"{run.path}@last", f"{run.path}@best")
    assert [find_checkpoint(str(name))[1] for name in names] == ["last", "last", "best"]


def test_the_last_checkpoint_needs_no_selection_and_plays_every_task(tmp_path):
    chosen = Selection.of(recorded(tmp_path, [(0.1, 0.6), (0.2, 0.3)]), "last")
    assert chosen.others(HELD_OUT) == HELD_OUT
    assert chosen.words_for(HELD_OUT) == "last, iteration 2: selected without a metric"
    assert chosen.record(HELD_OUT) == {"which": "last", "iteration": 2}


def test_the_best_checkpoint_plays_tasks_outside_its_selection(tmp_path):
    chosen = Selection.of(recorded(tmp_path, [(0.1, 0.6), (0.2, 0.3), (0.9, None)]), "best")
    words = (
        "best, iteration 1: the highest evaluation/success_rate (60.0%) of 2 iterations, on panel"
        f" {HELD_OUT.hash} (valid, 4 tasks)"
    )
    whole = Panel("Rooms", "valid", (*HELD_OUT.task_ids, "t8", "t9"))
    others = chosen.others(whole)
    assert others == Panel("Rooms", "valid", ("t8", "t9"))
    assert chosen.words_for(others) == (
        f"{words}; 0 of the 2 tasks of this report selected the checkpoint"
    )
    assert chosen.words_for(whole) == (
        f"{words}; 4 of the 6 tasks of this report selected the checkpoint; success on these tasks"
        " is likely too high"
    )
    assert chosen.record(whole) == {
        "which": "best",
        "iteration": 1,
        "metric": "evaluation/success_rate",
        "value": 0.6,
        "candidates": 2,
        "panel": {"hash": HELD_OUT.hash, "environment": "Rooms", "split": "valid", "tasks": 4},
        "tasks_in_this_report": 4,
    }
    with pytest.raises(ConfigError, match="all 4 tasks of valid selected the best checkpoint"):
        chosen.others(HELD_OUT)
    for name, split in (("Rooms", "test"), ("Halls", "valid")):  # equal ids of different tasks
        elsewhere = Panel(name, split, HELD_OUT.task_ids)
        assert chosen.others(elsewhere) == elsewhere


def test_without_evaluations_training_success_selects_the_best(tmp_path):
    chosen = Selection.of(recorded(tmp_path, [(0.5, None), (0.2, None)]), "best")
    assert chosen.words() == (
        "best, iteration 1: the highest success_rate (50.0%) of 2 iterations, on panel"
        f" {TRAIN.hash} (train, 2 tasks)"
    )
    assert chosen.others(HELD_OUT) == HELD_OUT
    with pytest.raises(ConfigError, match="all 2 tasks of train selected"):
        chosen.others(TRAIN)


def test_a_single_candidate_involves_no_selection(tmp_path):
    chosen = Selection.of(recorded(tmp_path, [(0.5, None), (0.2, 0.25)]), "best")
    assert chosen.others(HELD_OUT) == HELD_OUT
    assert chosen.words_for(HELD_OUT) == (
        "best, iteration 2: the only iteration with evaluation/success_rate (25.0%), on panel"
        f" {HELD_OUT.hash} (valid, 4 tasks)"
    )


def test_the_error_for_missing_records_names_the_last_checkpoint(tmp_path):
    run = recorded(tmp_path, [(0.1, 0.6), (0.2, 0.3)])
    (run.path / "panels.json").unlink()
    with pytest.raises(ConfigError, match=r"why iteration 1 is the best: use .*@last"):
        Selection.of(run, "best")
    assert Selection.of(run, "last").iteration == 2
