"""Decisions of the searcher and the schedulers of a sweep, from results written by hand."""

import json
import math

import pytest
from pyarrow.fs import LocalFileSystem
from ray.train._internal.storage import StorageContext
from ray.tune.experiment import Trial as TuneTrial
from ray.tune.schedulers import TrialScheduler
from ray.tune.search import Searcher
from ray.tune.search.variant_generator import generate_variants

from tests.cli.sweep.conftest import play
from trca.algorithms.settings.sweeps import SweepSettings
from trca.cli.run.training import stopping
from trca.cli.sweep.sweeping import claim_directory, param_space
from trca.cli.sweep.table import as_rich, summarise, write_table
from trca.cli.sweep.trial import ERROR, ITERATIONS, METRIC, SweepTrial
from trca.cli.sweep.trials import Trial, planned, read_trials
from trca.cli.sweep.tuning import PanelASHA, PointSearch, SweepScheduler, outcome
from trca.runs.folder import RunFolder
from trca.tune_configs.files import ConfigError

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


def ended(value, iteration=4):
    """The last result of a trial of four iterations."""
    return {METRIC: value, "training_iteration": iteration, ITERATIONS: 4}


def rest_of(search, result_of=lambda point: ended(good(point))):
    """The points that a search still starts, with the results of their trials."""
    points = []
    while (config := search.suggest(str(len(points)))) != Searcher.FINISHED:
        points.append(config["trial"]["point"])
        search.on_trial_complete(str(len(points) - 1), result_of(points[-1]))
    return points


def points_of(sweep, result_of=lambda point: ended(good(point))):
    """The points of a search whose results come at once, a trial at a time."""
    return rest_of(PointSearch(sweep), result_of)


def test_a_search_repeats_its_points_and_another_seed_has_others():
    points = points_of(settings(SEARCH))
    assert len(points) == 12
    assert {type(point["group_size"]) for point in points} == {int}
    assert all(p["budgets"] in SEARCH["sample"]["budgets"]["choice"] for p in points)
    assert points_of(settings(SEARCH)) == points
    assert points_of(settings(SEARCH, sample_seed=1))[0] != points[0]


def recorded(folder, points, state="interrupted", rates=(0.5,)):
    """The trials of a search whose process was killed, one for each point."""
    trials = []
    for number, point in enumerate(points):
        about = planned(settings(SEARCH), [point], number)[0]
        run = RunFolder(folder / "trials" / about["name"])
        play(run, rates, state)
        trials.append(Trial(json.loads(json.dumps(point)), {}, "", {}, 0, run))
    return trials


def test_recorded_points_stay_though_the_search_chooses_others_now(tmp_path):
    sweep = settings(SEARCH)
    points = points_of(sweep)
    assert rest_of(PointSearch(sweep, recorded(tmp_path, points[:2]))) == points
    others = [points[0], points[2]]
    resumed = rest_of(PointSearch(sweep, recorded(tmp_path / "others", others)))
    assert resumed[:2] == others
    assert len(resumed) == 12


def test_a_resumed_search_reads_ended_trials_and_starts_none_of_them(tmp_path):
    sweep = settings(SEARCH)
    points = points_of(sweep, lambda point: ended(0.5))
    trials = recorded(tmp_path, points[:5], "finished", [0.5] * 4)
    assert rest_of(PointSearch(sweep, trials), lambda point: ended(0.5)) == points[5:]


def test_a_failed_trial_that_succeeds_when_tried_again_leaves_the_recorded_points(tmp_path):
    sweep = settings(SEARCH)
    points = points_of(sweep, lambda point: None if point["lr"] > 1e-3 else ended(good(point)))
    resumed = rest_of(PointSearch(sweep, recorded(tmp_path, points, "failed")))
    assert json.dumps(resumed) == json.dumps(points)


def test_later_points_follow_from_the_results_of_those_before():
    sweep = settings(SEARCH, samples=14)
    best = points_of(sweep)
    worst = points_of(sweep, lambda point: ended(-good(point)))
    assert best[:3] == worst[:3]  # drawn at random
    assert best[3:] != worst[3:]
    assert sum(map(good, best[8:])) > 1.5 * sum(map(good, worst[8:]))


def test_points_that_run_beside_each_other_do_not_depend_on_which_ends_first():
    orders = []
    for order in ("012", "201"):
        search = PointSearch(settings(SEARCH, side_by_side=3))
        points = [search.suggest(str(k))["trial"]["point"] for k in range(3)]
        assert search.suggest("3") is None
        for name in order:
            search.on_trial_complete(name, ended(good(points[int(name)])))
            while (config := search.suggest(str(len(points)))) is not None:
                points.append(config["trial"]["point"])
        orders.append(points)
    assert orders[0] == orders[1]
    assert len(orders[0]) == 6


def test_a_failed_point_teaches_nothing_and_a_stopped_one_is_below_those_that_ended():
    def result_of(point):
        # Stopped trials have the better metric.
        return ended(0.9, iteration=2) if point["lr"] < 1e-3 else ended(0.5)

    sweep = settings(SEARCH, samples=16)
    points = points_of(sweep, result_of)
    assert sum(p["lr"] >= 1e-3 for p in points[8:]) >= 6
    failing = {METRIC: math.nan, ITERATIONS: 4, ERROR: "no credit today", "training_iteration": 1}
    assert len(points_of(sweep, lambda point: failing)) == 16
    assert outcome([ended(0.5), failing]) == outcome([ended(0.5), {}]) == (None, None)
    assert outcome([ended(0.2), ended(0.6)]) == (pytest.approx(0.4), None)
    assert outcome([ended(0.2, 3), ended(0.6, 2), ended(0.1)])[1] == 2


def test_a_point_waits_for_all_of_its_repeats():
    games = [{"env_config.games": f"small-{k}"} for k in (7, 8)]
    search = PointSearch(settings(SEARCH, samples=2, seeds=[0, 1], panels=games))
    configs = [search.suggest(str(k)) for k in range(4)]
    repeats = [config["trial"] for config in configs]
    assert [(r["panel"]["env_config.games"], r["seed"]) for r in repeats] == [
        *(("small-7", 0), ("small-7", 1)),
        *(("small-8", 0), ("small-8", 1)),
    ]
    assert len({json.dumps(config["trial"]["point"]) for config in configs}) == 1
    for name in ("3", "1", "0"):
        search.on_trial_complete(name, ended(0.5))
        assert search.suggest("4") is None
    search.on_trial_complete("2", ended(0.5))
    assert search.suggest("4")["trial"]["number"] == 1


def test_a_searched_point_that_no_run_can_have_counts_as_failed():
    # The checks before the start draw no gamma above 1.
    sweep = settings(SEARCH, samples=4)
    sweep.sample["gamma"] = {"uniform": [0.9, 1.4]}
    points = points_of(sweep)
    assert 0 < len(points) < 4
    assert all(point["gamma"] <= 1 for point in points)


def trial(sweep, folder, number, seed=0, panel=None):
    """One of Tune's trials of a sweep's point."""
    storage = StorageContext(str(folder), "trials", storage_filesystem=LocalFileSystem())
    about = planned(sweep, [sweep.every_point()[number]], number)[0]
    about |= {"panel": panel or sweep.panels[0], "seed": seed}
    config = {"sweep": sweep.model_dump(), "trial": about}
    return TuneTrial(
        "SweepTrial",
        config=config,
        stub=True,
        storage=storage,
        trial_dirname_creator=claim_directory,
    )


def report(scheduler, trial, iteration, value):
    """The decision of a scheduler on an iteration."""
    result = {METRIC: value, "training_iteration": iteration, "trajectories": 32 * iteration}
    return scheduler.on_trial_result(None, trial, result)


def test_asha_stops_the_trial_that_is_behind(tmp_path):
    sweep = settings(ASHA)
    scheduler, stops = PanelASHA(sweep, 9), {}
    trials = [trial(sweep, tmp_path, number) for number in range(4)]
    for number, rate in enumerate((0.6, 0.2, 0.7, 0.1)):
        for iteration in range(1, 9):
            if report(scheduler, trials[number], iteration, rate) == TrialScheduler.STOP:
                stops[number] = iteration
                break
    assert stops == {1: 2, 3: 2}
    folder = tmp_path / "trials" / "002_lambda-0.5_seed-0"
    stopped = RunFolder(folder).read_json("stopped.json")
    assert stopped == {
        "iteration": 2,
        "trajectories": 64,
        "metric": "success_rate",
        "value": pytest.approx(0.2),
    }


def test_recorded_iterations_judge_others_and_are_not_judged_again(tmp_path):
    sweep = settings(ASHA)
    folder = RunFolder.create(tmp_path, "mine")
    first, second, *_ = read_trials(sweep, folder)
    play(first.run, [0.5, 0.5], "interrupted")
    play(second.run, [0.7, 0.7], "interrupted")
    scheduler = PanelASHA(sweep, 9, read_trials(sweep, folder))
    first, _, third = (trial(sweep, folder.path, number) for number in range(3))
    assert report(scheduler, first, 2, 0.5) == TrialScheduler.CONTINUE  # trained again
    assert report(scheduler, first, 3, 0.4) == TrialScheduler.CONTINUE
    assert report(scheduler, third, 2, 0.55) == TrialScheduler.STOP  # below the rung of 0.5 and 0.7


def test_asha_compares_trials_of_one_panel_and_seed_alone(tmp_path):
    games = [{"env_config.games": f"small-{k}"} for k in (7, 8)]
    sweep = settings(ASHA, panels=games)
    scheduler = PanelASHA(sweep, 9)
    pairs = ((0, games[0], 0.9), (1, games[1], 0.1), (2, games[0], 0.1))
    decisions = []
    for number, panel, value in pairs:
        each = trial(sweep, tmp_path, number, panel=panel)
        decisions.append(report(scheduler, each, 2, value))
    assert decisions == [TrialScheduler.CONTINUE, TrialScheduler.CONTINUE, TrialScheduler.STOP]


def test_a_sweep_that_is_asked_to_stop_ends_trials_after_their_iteration(tmp_path):
    sweep = settings(ASHA)
    each = trial(sweep, tmp_path, 0)
    for scheduler in (SweepScheduler(), PanelASHA(sweep, 9)):
        assert report(scheduler, each, 1, 0.5) == TrialScheduler.CONTINUE
        stopping().set()
        try:
            assert report(scheduler, each, 3, math.nan) == TrialScheduler.STOP
            assert scheduler.choose_trial_to_run(None) is None
        finally:
            stopping().clear()
    assert not (tmp_path / "trials" / claim_directory(each)).exists()


@pytest.mark.parametrize(
    ("gpus", "bundles"),
    [
        ({}, [{"CPU": 1}]),
        ({"num_gpus_per_env_runner": 0.5}, [{"CPU": 1, "GPU": 0.5}]),
        ({"num_gpus_per_env_runner": 0.5, "num_gpus_per_learner": 1}, [{"CPU": 1, "GPU": 1}]),
        (
            {"num_gpus_per_env_runner": 0.5, "num_gpus_per_learner": 1, "num_learners": 1},
            [{"CPU": 1, "GPU": 0.5}, {"CPU": 1, "GPU": 1}],
        ),
    ],
)
def test_a_trial_requests_the_gpus_of_its_driver(gpus, bundles):
    here = {"num_env_runners": 0, "num_learners": 0}
    sweep = settings(ASHA, set={"iterations": 9, **here, **gpus})
    config = next(spec for _, spec in generate_variants(param_space(sweep, "mine")))
    assert SweepTrial.default_resource_request(config).bundles == bundles


def test_trials_start_in_the_order_of_points_panels_and_seeds(tmp_path):
    games = [{"env_config.games": f"small-{k}"} for k in (7, 8)]
    sweep = settings(ASHA, seeds=[0, 1], panels=games)

    def started(ended=frozenset()):
        configs = [spec for _, spec in generate_variants(param_space(sweep, "mine", ended))]
        return [TuneTrial("SweepTrial", config=config, stub=True) for config in configs]

    trials = started()
    assert trials[2].config["trial"]["label"] == "lambda_=0.2  env_config.games=small-8  seed=0"
    names = [claim_directory(each) for each in trials]
    assert names[2] == "003_lambda-0.2_games-small-8_seed-0"
    folder = RunFolder.create(tmp_path, "mine")
    assert names == [each.run.name for each in read_trials(sweep, folder)]
    # A resumed sweep leaves out the trials that have ended.
    left = started({1, 2, 5, *range(8, 17)})
    assert [claim_directory(each)[:3] for each in left] == ["003", "004", "006", "007"]


def test_a_trial_has_the_directory_of_its_name_before_tune_looks_for_a_free_one(tmp_path):
    each = trial(settings(ASHA), tmp_path, 2)
    assert each.relative_logdir == claim_directory(each) == "003_lambda-0.8_seed-0"
    assert each.storage.trial_fs_path == str(tmp_path / "trials" / "003_lambda-0.8_seed-0")


def test_a_stopped_trial_has_a_column_and_is_in_no_mean(tmp_path):
    sweep = settings(ASHA, seeds=[0, 1])
    folder = RunFolder.create(tmp_path, "sweep")
    for each in (trials := read_trials(sweep, folder)):
        play(each.run, [0.5] * 9)
    stop = {"iteration": 2, "trajectories": 64, "metric": "success_rate", "value": 0.01}
    trials[2].run.write_json("stopped.json", stop)
    rows = summarise(read_trials(sweep, folder), sweep.repeats)
    assert (rows[1]["n"], rows[1]["failed"]) == (1, 0)
    assert rows[1]["success_rate"]["values"] == [0.5]
    (stopped,) = rows[1]["stopped"]
    assert (stopped["seed"], stopped["iteration"], stopped["value"]) == (0, 2, 0.01)
    write_table(rows, folder)
    head, _, *lines = (folder.path / "sweep.md").read_text().splitlines()
    assert head.endswith(" in points | stopped early |")
    assert lines[1].startswith("| 0.5 | 1 | - | 50.0% | - | iteration 2, ")
    assert lines[2].endswith("| - | - |")
    assert as_rich(rows).row_count == 4


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"search": "optunna"}, "unknown key 'search.optunna': did you mean 'optuna'"),
        ({"search": {"optuna": {"startup": 3}}}, "did you mean 'startup_points'"),
        ({"search": {"optuna": {"startup_points": 0}}}, "startup_points is 0"),
        ({"grid": {"lambda_": [0.2, 0.8]}}, "Optuna chooses them, so write `sample"),
        ({"samples": 1}, "samples is 1"),
        ({"side_by_side": None}, "side_by_side is null: give the trials at a time"),
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
        (
            {"set": {"algorithm": "Imitation"}, "sample": {"lr": {"loguniform": [1e-5, 1e-2]}}},
            "in training it is the demonstrator's: set metric to evaluation/success_rate",
        ),
    ],
)
def test_a_search_or_scheduler_that_makes_no_sense_is_refused(given, message):
    with pytest.raises(ConfigError, match=message):
        settings({**SEARCH, "samples": 3}, **given)


def test_a_search_without_optuna_names_the_extra(monkeypatch):
    monkeypatch.setattr("trca.common.extras.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"needs optuna: pip install '\.\[optuna\]'"):
        settings({**SEARCH, "samples": 3})
