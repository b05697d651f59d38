"""What Ray Tune decides in a sweep, with metrics written by hand in place of trainings."""

import json
import math

import pytest

from trca.cli.sweep.sweeping import Tuning
from trca.cli.sweep.table import as_rich, summarise, write_table
from trca.cli.sweep.trials import begin, read_trials
from trca.cli.sweep.tuning import EarlyStopping, Lines, PointSearch, Result
from trca.runs.folder import RunFolder
from trca.tune_configs.files import ConfigError
from trca.tune_configs.sweeps import SweepSettings

SEARCH = {
    "base": "quickstart",
    "set": {"iterations": 4},
    "sample": {
        "lr": {"loguniform": [1e-5, 1e-2]},
        "budgets": {"choice": [{"evidence": 0.1}, {"evidence": 0.5}]},
        "group_size": {"randint": [2, 9]},
    },
    "samples": 12,
    "search": {"optuna": {"startup_points": 3}},
    "seeds": [0],
    "side_by_side": 1,
}
ASHA = {
    "base": "quickstart",
    "set": {"iterations": 9},
    "grid": {"lambda_": [0.2, 0.5, 0.8, 1.0]},
    "scheduler": {"asha": {"grace_period": 2, "reduction_factor": 2}},
    "seeds": [0],
    "side_by_side": 1,
}


def settings(given, **changes):
    return SweepSettings.resolve(given | changes, "mine")


def good(point):
    """A metric that is best at a learning rate of 1e-3."""
    return 1 / (1 + (math.log10(point["lr"]) + 3) ** 2)


def points_of(sweep, file, value=good):
    """The points of a search whose results come at once."""
    search, points = PointSearch(sweep, file), []
    while (point := search.next(lambda k: Result(value(points[k])))) is not None:
        points.append(point)
    return points


def play(trial, rates, ended=True):
    """Writes what a training would: a line of metrics an iteration, and a checkpoint at its end."""
    for iteration, rate in enumerate(rates, start=1):
        row = {"iteration": iteration, "trajectories": 10 * iteration, "success_rate": rate}
        trial.run.append_metrics(row)
    trial.run.set_status("finished" if ended else "interrupted", len(rates))
    if ended:
        trial.run.save_checkpoint(trial.iterations, lambda to: None, best=True)


def run_points(tuning, trials, most=100, rates=lambda trial: [good(trial.point)]):
    """Runs a sweep with a search, a trial at a time."""
    while True:
        trials = trials + tuning.more([trial for trial in trials if trial.state != "waiting"])
        waiting = [trial for trial in trials if trial.state == "waiting"]
        if not waiting or most == 0:
            return trials
        play(waiting[0], rates(waiting[0]))
        most -= 1


def test_a_search_repeats_its_points_and_another_seed_has_others(tmp_path):
    points = points_of(settings(SEARCH), tmp_path / "one")
    assert len(points) == 12
    assert {type(point["group_size"]) for point in points} == {int}
    assert all(p["budgets"] in SEARCH["sample"]["budgets"]["choice"] for p in points)
    assert points_of(settings(SEARCH), tmp_path / "again") == points
    assert points_of(settings(SEARCH, sample_seed=1), tmp_path / "other")[0] != points[0]


def test_later_points_follow_from_the_results_of_those_before(tmp_path):
    sweep = settings(SEARCH, samples=14)
    best = points_of(sweep, tmp_path / "best")
    worst = points_of(sweep, tmp_path / "worst", lambda point: -good(point))
    assert best[:3] == worst[:3]  # drawn at random
    assert best[3:] != worst[3:]
    assert sum(map(good, best[8:])) > 1.5 * sum(map(good, worst[8:]))


def test_points_that_run_beside_each_other_do_not_depend_on_which_ends_first(tmp_path):
    sweep = settings(SEARCH, side_by_side=3)
    search, points = PointSearch(sweep, tmp_path / "search.jsonl"), []
    for _ in range(3):
        points.append(search.next(lambda k: None))
    known = {2: Result(good(points[2])), 1: Result(good(points[1]))}
    assert search.next(known.get) is None  # waits for the first, whatever else is there
    known[0] = Result(good(points[0]))
    points.append(search.next(known.get))
    assert points[3] is not None
    told = [json.loads(line)["point"] for line in (tmp_path / "search.jsonl").open()]
    assert told == [0]


def test_a_failed_point_teaches_nothing_and_a_stopped_one_is_below_those_that_ended(tmp_path):
    sweep = settings(SEARCH, samples=16)
    search, points = PointSearch(sweep, tmp_path / "search.jsonl"), []

    def result_of(number):
        low = points[number]["lr"] < 1e-3
        # Stopped trials read better, as early ones of an unlucky start may.
        return Result(0.9, iteration=2) if low else Result(0.5)

    while (point := search.next(result_of)) is not None:
        points.append(point)
    assert sum(p["lr"] >= 1e-3 for p in points[8:]) >= 6
    failing = points_of(sweep, tmp_path / "failing", lambda point: None)
    assert len(failing) == 16


def test_a_searched_sweep_that_was_killed_goes_on_to_the_same_points(tmp_path):
    sweep = settings(SEARCH, samples=5, seeds=[0, 1])
    whole = RunFolder.create(tmp_path, "whole")
    begin(sweep, whole)
    run_points(Tuning(sweep, whole), [])
    killed = RunFolder.create(tmp_path, "killed")
    begin(sweep, killed)
    run_points(Tuning(sweep, killed), [], most=5)
    # The kill came while the next point's second trial was made, and a line was written.
    last = read_trials(killed)[-1].run.path
    (last / "trial.json").unlink()
    with (killed.path / "search.jsonl").open("a") as file:
        file.write('{"point": 2, "val')
    again = SweepSettings.model_validate(killed.read_config())
    tuning = Tuning(again, killed)
    run_points(tuning, read_trials(killed))
    points = [trial.point for trial in read_trials(whole)]
    assert len(points) == 10
    told = [json.loads(line)["value"] for line in (whole.path / "search.jsonl").open()]
    assert told == pytest.approx([good(point) for point in points[:-2:2]])
    assert [trial.point for trial in read_trials(killed)] == points
    tables = []
    for folder in (whole, killed):
        write_table(summarise(read_trials(folder), sweep.repeats), folder)
        tables.append((folder.path / "sweep.md").read_text())
    assert tables[0] == tables[1]


def test_a_searched_point_that_no_run_can_have_counts_as_failed(tmp_path):
    # Draws are checked beforehand, and these have none of the high ones.
    sweep = settings(SEARCH, samples=4)
    sweep.sample["gamma"] = {"uniform": [0.9, 1.4]}
    folder = RunFolder.create(tmp_path, "sweep")
    begin(sweep, folder)
    trials = run_points(Tuning(sweep, folder), [])
    told = [json.loads(line)["value"] for line in (folder.path / "search.jsonl").open()]
    refused = [number for number, value in enumerate(told) if value is None]
    assert refused
    assert 0 < len(trials) < 4
    assert all(trial.point["gamma"] <= 1 for trial in trials)
    assert {trial.number - 1 for trial in trials}.isdisjoint(refused)
    assert len(run_points(Tuning(sweep, folder), read_trials(folder))) == len(trials)


def test_a_search_that_would_not_repeat_its_points_says_so(tmp_path):
    sweep = settings(SEARCH)
    folder = RunFolder.create(tmp_path, "sweep")
    begin(sweep, folder)
    (trial,) = Tuning(sweep, folder).more([])
    trial.run.write_json("trial.json", {"point": trial.point | {"lr": 0.5}, "seed": 0})
    with pytest.raises(ConfigError, match="go on with the version of Optuna"):
        Tuning(sweep, folder)


def test_a_searched_sweep_keeps_its_base_and_the_users_files(tmp_path):
    rule = tmp_path / "rules.py"
    rule.write_text("import numpy as np\n\ndef zero(batch):\n    return np.zeros(len(batch))\n")
    base = tmp_path / "base.yaml"
    base.write_text(f"algorithm: GRPO\niterations: 2\ncredit: {rule}:zero\n")
    sample = {"credit": {"choice": [f"{rule}:zero", "grpo"]}}
    begin(
        settings(SEARCH, base=str(base), set={}, sample=sample, samples=6),
        folder := RunFolder.create(tmp_path, "sweep"),
    )
    base.unlink(), rule.unlink()
    sweep = SweepSettings.model_validate(folder.read_config())
    trials = run_points(Tuning(sweep, folder), [], rates=lambda trial: [0.5])
    assert {trial.words["credit"] for trial in trials} == {"rules.py:zero", "grpo"}
    assert all(trial.iterations == 2 for trial in trials)
    assert len(run_points(Tuning(sweep, folder), trials)) == 6


def test_asha_stops_the_trial_that_is_behind_and_a_resumed_one_decides_alike(tmp_path):
    sweep = settings(ASHA)
    rates = {"a": 0.6, "b": 0.2, "c": 0.7, "d": 0.1}
    stopping, stops = EarlyStopping(sweep, 9, tmp_path / "one"), {}
    for number, (trial, rate) in enumerate(rates.items()):
        if number == 2:
            stopping = EarlyStopping(sweep, 9, tmp_path / "one")
        for iteration in range(1, 10):
            if stopping.stops(trial, "seed=0", iteration, rate):
                stops[trial] = iteration
                break
    assert stops == {"b": 2, "d": 2}
    again = EarlyStopping(sweep, 9, tmp_path / "one")
    assert {name: line["iteration"] for name, line in again.stopped.items()} == stops
    assert len(Lines(tmp_path / "one")) == 8 + 2 + 8 + 2  # the last iteration decides nothing


def test_asha_compares_trials_of_one_panel_and_seed_alone(tmp_path):
    stopping = EarlyStopping(settings(ASHA), 9, tmp_path / "one")
    assert not stopping.stops("a", "small-7  seed=0", 2, 0.9)
    assert not stopping.stops("b", "small-8  seed=0", 2, 0.1)
    assert stopping.stops("c", "small-7  seed=0", 2, 0.1)


def test_a_stopped_trial_is_told_by_itself_and_is_in_no_mean(tmp_path):
    sweep = settings(ASHA, seeds=[0, 1])
    folder = RunFolder.create(tmp_path, "sweep")
    begin(sweep, folder)
    tuning, trials = Tuning(sweep, folder), read_trials(folder)
    for trial in trials:
        rate = trial.point["lambda_"] / 2 if trial.seed == 0 else 0.5
        if trial.point["lambda_"] == 0.5 and trial.seed == 0:
            rate = 0.01
        rows = [
            {"iteration": k, "trajectories": 32 * k, "success_rate": rate} for k in range(1, 10)
        ]
        if tuning.stops(trial, rows[:2]):
            for row in rows[:3]:  # it was stopped a little late
                trial.run.append_metrics(row)
            trial.run.set_status("interrupted", 3)
        else:
            play(trial, [rate] * 9)
    second = summarise(read_trials(folder), sweep.repeats)[1]
    assert (second["n"], second["failed"]) == (1, 0)
    assert second["success_rate"]["values"] == [0.5]
    (stopped,) = second["stopped"]
    assert (stopped["seed"], stopped["iteration"], stopped["value"]) == (0, 2, 0.01)
    write_table(summarise(read_trials(folder), sweep.repeats), folder)
    head, _, *rows = (folder.path / "sweep.md").read_text().splitlines()
    assert head.endswith(" in points | stopped early |")
    assert rows[1].startswith("| 0.5 | 1 | - | 50.0% | - | iteration 2, ")
    assert rows[2].endswith("| - | - |")
    assert as_rich(summarise(read_trials(folder), sweep.repeats)).row_count == 4


def test_a_kill_between_a_decision_and_its_trial_is_mended(tmp_path):
    sweep = settings(ASHA)
    folder = RunFolder.create(tmp_path, "sweep")
    begin(sweep, folder)
    first, second, third, _ = read_trials(folder)
    tuning = Tuning(sweep, folder)
    rows = [{"iteration": k, "trajectories": 32 * k, "success_rate": 0.5} for k in (1, 2, 3)]
    low = [row | {"success_rate": 0.1} for row in rows]
    assert not tuning.stops(first, rows)
    for row in low:
        second.run.append_metrics(row)
        third.run.append_metrics(row)
    assert tuning.stops(second, low)
    (second.run.path / "stopped.json").unlink()
    tuning = Tuning(sweep, folder)
    assert second.stopped == {
        "iteration": 2,
        "trajectories": 64,
        "metric": "success_rate",
        "value": pytest.approx(0.1),
    }
    assert tuning.stops(third, third.run.metrics())  # its metrics were there and not judged yet


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"search": "optunna"}, "unknown key 'search.optunna': did you mean 'optuna'"),
        ({"search": {"optuna": {"startup": 3}}}, "did you mean 'startup_points'"),
        ({"search": {"optuna": {"startup_points": 0}}}, "startup_points is 0"),
        ({"grid": {"lambda_": [0.2, 0.8]}}, "Optuna chooses them, so write `sample"),
        ({"samples": 1}, "samples is 1"),
        ({"sample": {"lr": {"qloguniform": [1e-4, 1, 1e-4]}}}, "Optuna has no qloguniform"),
        ({"metric": "sucess_rate"}, "metric is 'sucess_rate': did you mean 'success_rate'"),
        ({"scheduler": "ahsa"}, "unknown key 'scheduler.ahsa': did you mean 'asha'"),
        ({"scheduler": {"asha": {"grace": 1}}}, "did you mean 'grace_period'"),
        ({"scheduler": {"asha": {"grace_period": 4}}}, "none would be stopped"),
        ({"scheduler": {"asha": {"reduction_factor": 1}}}, "reduction_factor is 1"),
        (
            {
                "scheduler": "asha",
                "set": {},
                "sample": {"iterations": {"choice": [4, 8]}},
                "samples": 9,
            },
            "compares trials of one length",
        ),
        (
            {"scheduler": "asha", "search": None, "samples": 1},
            "there is 1 point: it compares points",
        ),
        (
            {"scheduler": "asha", "metric": "evaluation/success_rate"},
            "evaluation_interval is 5: ASHA reads it after 1 iterations",
        ),
    ],
)
def test_a_search_or_scheduler_that_makes_no_sense_is_refused(given, message):
    with pytest.raises(ConfigError, match=message):
        settings({**SEARCH, "samples": 3}, **given)


def test_a_search_without_optuna_names_the_extra(monkeypatch):
    monkeypatch.setattr("trca.common.extras.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"needs optuna: pip install 'trca\[optuna\]'"):
        settings({**SEARCH, "samples": 3})
