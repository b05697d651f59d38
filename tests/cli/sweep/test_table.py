"""The trials of a sweep in words, its table and its picture."""

import shutil

import pytest

from tests.cli.sweep.conftest import SWEEP, play
from trca.algorithms.settings.sweeps import SweepSettings
from trca.cli.sweep.table import curves, summarise, write_table
from trca.cli.sweep.trials import joined, point_words, read_trials
from trca.runs.folder import RunFolder


def made(settings, folder):
    """The trials of a sweep, each with an empty run folder."""
    trials = read_trials(settings, folder)
    for trial in trials:
        trial.run.path.mkdir(parents=True)
    return trials


def test_points_in_words_have_names_of_files_mappings_and_six_digits():
    words = point_words(
        [
            {"credit": "/home/me/rules.py:good", "env_config.library": "/a/mine.yaml", "lr": 0.1},
            {"credit": "/home/me/rules.py:bad", "env_config.library": "/b/mine.yaml", "lr": 0.2},
        ]
    )
    assert [joined(each) for each in words] == [
        "credit=rules.py:good  env_config.library=a/mine.yaml  lr=0.1",
        "credit=rules.py:bad  env_config.library=b/mine.yaml  lr=0.2",
    ]
    shrunk = {"model": "shrunk:Qwen/Qwen2.5-1.5B-Instruct"}
    assert point_words([shrunk]) == [shrunk]
    words = point_words([{"lr": 0.00012345678, "lambda_": 1.0, "budgets": {"evidence": 2 / 3}}])
    assert words == [{"lr": "0.000123457", "lambda_": "1.0", "budgets": "evidence 0.666667"}]
    words = point_words([{"budgets": {"evidence": 0.1, "execution": 0.5}}])
    assert words == [{"budgets": "evidence 0.1, execution 0.5"}]


def test_every_point_is_run_on_every_panel_and_its_runs_are_pooled(tmp_path):
    games = [{"env_config.games": f"small-{k}"} for k in (7, 8)]
    settings = SweepSettings.resolve({**SWEEP, "seeds": [0, 1], "panels": games}, "mine")
    trials = made(settings, RunFolder.create(tmp_path, "sweep"))
    assert len(trials) == len(settings.every_point()) * settings.repeats == 8
    assert trials[2].run.name == "003_algorithm-TRCA_games-small-8_seed-0"
    for number, trial in enumerate(trials):
        held_out = [0.1, 0.3, 0.5, 0.9, 0.2, 0.4, 0.7, 0.9][number]
        row = {"iteration": 1, "success_rate": number / 10, "evaluation/success_rate": held_out}
        trial.run.append_metrics(row)
        trial.run.set_status("finished", 1)
    trca, grpo = summarise(trials, settings.repeats)
    assert (trca["n"], grpo["n"]) == (4, 4)
    assert trca["success_rate"]["values"] == [0.0, 0.1, 0.2, 0.3]
    assert trca["success_rate"]["mean"] == pytest.approx(0.15)
    # Over the two panels' means, .05 and .25, whatever the number of seeds.
    assert trca["success_rate"]["half_width"] == pytest.approx(12.706 * 0.1, rel=1e-3)
    # Both panels differ much, and the points on them little: by .1 on each.
    held_out = grpo["evaluation/success_rate"]
    assert "difference" not in trca["evaluation/success_rate"]
    assert held_out["half_width"] == pytest.approx(12.706 * 0.25, rel=1e-3)
    assert held_out["difference"] == pytest.approx({"mean": 0.1, "half_width": 0.0}, abs=1e-9)


def test_a_difference_is_over_the_panels_and_seeds_that_both_points_have(tmp_path):
    games = [{"env_config.games": f"small-{k}"} for k in (7, 8, 9)]
    settings = SweepSettings.resolve({**SWEEP, "seeds": [0, 1], "panels": games}, "mine")
    folder = RunFolder.create(tmp_path, "sweep")
    trials = made(settings, folder)
    first, second = [0.0, 0.9, 0.2, 0.4, 0.5, 0.7], [0.1, 0.9, 0.5, 0.7, 0.0, 0.0]
    for number, (trial, rate) in enumerate(zip(trials, first + second, strict=True)):
        state = "failed" if number in (1, 10, 11) else "finished"
        play(trial.run, [rate], state, "evaluation/success_rate")
    rows = summarise(trials, settings.repeats)
    # The first panel has one pair, seed 0, and the third none.
    assert rows[1]["evaluation/success_rate"]["difference"]["mean"] == pytest.approx(0.2)
    write_table(rows, folder)
    head, _, trca, grpo = (folder.path / "sweep.md").read_text().splitlines()
    assert head.endswith(" | minus first, held out, in points | failed |")
    assert trca.endswith(" | - | 1 |")
    assert grpo.endswith(" | +20.0 ± 127.1 | 2 |")


def test_without_panels_the_interval_is_over_seeds(tmp_path):
    settings = SweepSettings.resolve({**SWEEP, "seeds": [0, 1, 2]}, "mine")
    trials = made(settings, RunFolder.create(tmp_path, "sweep"))
    for trial in trials:
        play(trial.run, [trial.seed / 10])
    for point in summarise(trials, settings.repeats):
        assert point["success_rate"]["mean"] == pytest.approx(0.1)
        assert point["success_rate"]["half_width"] == pytest.approx(4.3027 * 0.1 / 3**0.5, rel=1e-3)


def test_a_trial_that_is_gone_is_waiting_and_shifts_no_other(tmp_path):
    settings = SweepSettings.resolve({**SWEEP, "seeds": [0, 1]}, "mine")
    folder = RunFolder.create(tmp_path, "sweep")
    for trial in (trials := made(settings, folder)):
        trial.run.set_status("finished", 1)
    shutil.rmtree(trials[1].run.path)
    trials = read_trials(settings, folder)
    assert [trial.state for trial in trials] == ["finished", "waiting", "finished", "finished"]
    trca, grpo = summarise(trials, settings.repeats)
    assert (trca["point"], grpo["point"]) == ({"algorithm": "TRCA"}, {"algorithm": "GRPO"})
    assert (trca["n"], grpo["n"]) == (1, 2)


def test_a_trial_that_has_not_ended_has_a_reason(tmp_path):
    settings = SweepSettings.resolve({**SWEEP, "seeds": [0, 1]}, "mine")
    trials = made(settings, RunFolder.create(tmp_path, "sweep"))
    trials[1].run.set_status("failed", 2, "no credit today")
    trials[2].run.set_status("running", 3)
    assert [trial.reason for trial in trials[:3]] == [
        "it did not start",
        "no credit today",
        "its process ended after iteration 3",
    ]


def test_the_picture_has_every_run_of_equal_points(tmp_path):
    drawn = {"grid": {}, "sample": {"group_size": {"choice": [2, 4]}}, "samples": 6}
    settings = SweepSettings.resolve(SWEEP | drawn | {"set": {}}, "mine")
    trials = made(settings, RunFolder.create(tmp_path, "sweep"))
    for trial in trials:
        play(trial.run, [0.5])
    runs = curves(trials)
    assert runs.keys() == {"group_size=2", "group_size=4"}
    assert sum(map(len, runs.values())) == 6
