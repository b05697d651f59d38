"""Sweep files that are read or refused before a trial starts."""

import re
from pathlib import Path

import pytest
import yaml

from tests.cli.calls import done, refused
from tests.cli.sweep.conftest import SWEEP
from trca.algorithms.settings.sweeps import SweepSettings
from trca.cli.sweep.sweeping import cpus_of_ray
from trca.cli.sweep.trials import shipped_sweeps, sweep_of
from trca.tune_configs.files import ConfigError, read


def test_what_one_algorithm_alone_has_is_left_out_of_another_s_trials():
    changed = {
        **SWEEP,
        "set": {**SWEEP["set"], "lambda_": 0.5, "critic_lr": 1e-3},
        "grid": {"algorithm": ["TRCA", "GRPO", "TurnPPO"]},
    }
    settings = SweepSettings.resolve(changed, "mine")
    trca, grpo, ppo = (settings.trial(point, 0).flat() for point in settings.every_point())
    assert trca["lambda_"] == 0.5
    assert grpo["algorithm"] == "GRPO"
    assert ppo["critic_lr"] == 1e-3
    assert not {"lambda_", "critic_lr"} & grpo.keys()
    assert "critic_lr" not in trca
    assert "lambda_" not in ppo


def test_what_no_algorithm_of_the_sweep_has_is_refused():
    changed = {**SWEEP, "set": {**SWEEP["set"], "critic_lr": 1e-3}}
    with pytest.raises(ConfigError, match="critic_lr"):
        SweepSettings.resolve(changed, "mine")


def test_another_base_comes_without_the_changes_and_panels_of_the_first(sweep, tmp_path):
    sweep(panels=[{"env_config.games": "small-31"}])
    other = tmp_path / "other.yaml"
    other.write_text(yaml.safe_dump(read("webshop") | {"lr": 1e-4}))
    for base, lr in (("webshop", 4e-4), (str(other), 1e-4)):
        settings = sweep_of(str(tmp_path / "mine.yaml"), ["iterations=3"], base=base)
        trials = [settings.trial(point, 0).flat() for point in settings.every_point()]
        assert [each["algorithm"] for each in trials] == ["TRCA", "GRPO"]
        for each in trials:
            assert each["env"] == "trca/WebShop-v0"
            assert (each["iterations"], each["lr"], each["model"]) == (3, lr, "tiny")
        assert settings.panels == [{}]


@pytest.mark.parametrize(
    ("base", "words"),
    [
        ("websop", "no config 'websop': give the path of a YAML file, or a name"),
        ("websop", "'webshop'"),
        ("sweeps/lambda", "--base sweeps/lambda is a sweep: give the config of a run"),
    ],
)
def test_a_base_that_is_not_the_config_of_a_run_is_refused(base, words):
    assert words in refused("sweep", "sweeps/lambda", "--base", base, "--dry-run")


def test_what_is_set_holds_for_an_algorithm_with_a_default_of_its_own_too():
    changed = {
        **SWEEP,
        "set": {**SWEEP["set"], "aggregation": "token_mean"},
        "grid": {"algorithm": ["GRPO", "DrGRPO"]},
    }
    settings = SweepSettings.resolve(changed, "mine")
    trials = [settings.trial(point, 0).flat() for point in settings.every_point()]
    assert [each["algorithm"] for each in trials] == ["GRPO", "DrGRPO"]
    assert [each["aggregation"] for each in trials] == ["token_mean", "token_mean"]


SMALL, OTHER = {"env_config.games": "small-31"}, {"env_config.games": "small-32"}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"grid": {"env_config": [{"max_steps": 2}]}, "set": {}, "panels": [SMALL, OTHER]},
            "env_config is in grid and env_config.games in panels: one would replace the other",
        ),
        (
            {"set": {"budgets.evidence": 1.0}, "grid": {"budgets": [{"evidence": 0.1}]}},
            "budgets.evidence is in set and budgets in grid: one would replace the other",
        ),
        (
            {"panels": [{**SMALL, "evaluation_split": "valid_seen"}, OTHER]},
            "panels: evaluation_split is in some and not in others: give it in each",
        ),
        ({"panels": [SMALL, OTHER, SMALL]}, "small-31'} is listed twice"),
        (
            {"grid": {"lambda_": [0.2, 0.5, 0.2]}},
            "[0.2, 0.5, 0.2]: a value is listed twice",
        ),
        (
            {"grid": {}, "points": [{"lambda_": 0.2}, {"lambda_": 0.2}]},
            "points: {'lambda_': 0.2} is listed twice",
        ),
        ({"samples": 5}, "samples is 5 and there is no sample: give more seeds to repeat"),
        ({"sample": {"gamma": {"quniform": [0, 1, 0]}}}, "sample.gamma: quniform of [0, 1, 0]"),
    ],
)
def test_what_would_be_overridden_or_counted_twice_is_refused(changes, words):
    with pytest.raises(ConfigError, match=re.escape(words)):
        SweepSettings.resolve({**SWEEP, **changes}, "mine")


def test_every_point_is_checked_on_every_panel(tmp_path):
    """GRPO compares the rollouts of a group, so that two of the four trials are refused."""
    unset = {"set": {k: v for k, v in SWEEP["set"].items() if k != "group_size"}}
    alone, four = {"group_size": 1}, {"group_size": 4}
    for panels in ([alone, four], [four, alone]):
        path = tmp_path / "mine.yaml"
        path.write_text(yaml.safe_dump({**SWEEP, **unset, "panels": panels}))
        assert "group_size=1" in refused("sweep", path, "--dry-run")
    path.write_text(yaml.safe_dump({**SWEEP, **unset, "panels": [four, {"group_size": 2}]}))
    output = done("sweep", path, "--dry-run")
    assert "4 trials, 2 side by side: 2 points" in output
    assert "; 12 rollouts in all" in output  # two rules, of 4 and of 2


@pytest.mark.parametrize(("given", "words"), [(None, "lr is -1"), ([1], "set is [1]")])
def test_a_sweep_file_with_an_empty_or_wrong_set_is_read_or_refused(sweep, tmp_path, given, words):
    sweep(set=given, grid={"lr": [-1]})
    assert words in refused("sweep", tmp_path / "mine.yaml", "--dry-run")


def test_a_wrong_sweep_is_refused_before_anything_is_made(sweep, tmp_path):
    sweep(grid={"lamda_": [0.1]})
    command = ["sweep", tmp_path / "mine.yaml", f"--storage-path={tmp_path}/runs"]
    assert "'lambda_'" in refused(*command)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(("side_by_side", "cpus"), [(2, 16), (None, 8)])
def test_ray_gets_the_cpus_of_the_largest_point_for_each_trial(side_by_side, cpus):
    settings = {**SWEEP, "set": {"num_learners": 1}, "grid": {"num_env_runners": [0, 6, 2]}}
    settings["side_by_side"] = side_by_side
    assert cpus_of_ray(SweepSettings.resolve(settings, "mine")) == cpus


def test_every_point_is_checked_against_the_machine(sweep, tmp_path, monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    sweep(set={"num_learners": 1}, grid={"num_gpus_per_learner": [0, 64]})
    command = ["sweep", tmp_path / "mine.yaml", f"--storage-path={tmp_path}/runs"]
    assert "num_gpus_per_learner=64: the run asks for 64 GPUs" in refused(*command)
    assert not (tmp_path / "runs").exists()


def test_a_dry_run_shows_the_trials_and_makes_nothing(sweep, tmp_path):
    sweep(seeds=[0, 1])
    output = done("sweep", tmp_path / "mine.yaml", f"--storage-path={tmp_path}/runs", "--dry-run")
    assert "4 trials, 2 side by side: 2 points with 2 seeds; 8 rollouts in all" in output
    assert "algorithm=GRPO" in output
    assert not (tmp_path / "runs").exists()


def test_a_name_that_is_no_sweep_lists_the_shipped_sweeps():
    sweeps = shipped_sweeps()
    assert sweeps["sweeps/rollouts"].startswith("How many rollouts? TRCA, GRPO and GiGPO")
    for name, problem in (
        ("nope", "no sweep 'nope': give the path of a YAML file"),
        ("quickstart", "quickstart is the config of a run: trca train quickstart runs it"),
    ):
        output = refused("sweep", name)
        assert problem in output
        assert all(f"{each} {sweeps[each]}" in output for each in sweeps)


def test_the_page_on_sweeps_has_the_question_of_each_shipped_sweep():
    page = (Path(__file__).parents[3] / "docs" / "sweeps.md").read_text("utf-8")
    rows = [f"| `{name}` | {question} |" for name, question in shipped_sweeps().items()]
    assert "\n".join(rows) in page
