import math

import pytest
import yaml

from trca.algorithms.settings.parameters import TextParameters, switch
from trca.algorithms.settings.sweeps import SweepSettings
from trca.tune_configs.files import ConfigError, assign, parse, read, shipped
from trca.tune_configs.run_parameters import method_name


def resolve(name="quickstart", **changes):
    return TextParameters.resolve(assign(read(name), changes), name)


RUNS = [name for name in shipped() if not name.startswith("sweeps/")]
OFFLINE = [name for name in RUNS if not name.startswith(("paper/", "smollm2/"))]


@pytest.mark.parametrize("name", RUNS)
def test_every_shipped_run_resolves(name):
    settings = TextParameters.resolve(read(name), name, need_data=name in OFFLINE)
    assert settings.flat()["algorithm"] == read(name)["algorithm"]
    assert TextParameters.resolve(settings.flat(), need_data=name in OFFLINE) == settings


@pytest.mark.parametrize("name", [name for name in shipped() if name.startswith("sweeps/")])
def test_every_shipped_sweep_resolves(name):
    sweep = SweepSettings.resolve(read(name), name, need_data=read(name)["base"] in OFFLINE)
    assert len(sweep.every_point()) * sweep.repeats > 1


def test_the_papers_preset_has_the_papers_table():
    flat = resolve("paper/alfworld_qwen2.5_1.5b", **{"env_config.games": "small"}).flat()
    table = {
        "model": "Qwen/Qwen2.5-1.5B-Instruct",
        "lr": 8e-7,
        "group_size": 8,
        "minibatch_size": 256,
        "gamma": 0.95,
        "clip_low": 0.2,
        "clip_high": 0.28,
        "kl_coeff": 0.012,
        "entropy_coeff": 0.001,
        "temperature": 1.0,
        "max_new_tokens": 512,
        "lambda_": 0.8,
    }
    assert {key: flat[key] for key in table} == table
    assert flat["env_config"]["max_steps"] == 25
    assert flat["iterations"] * flat["tasks_per_iteration"] * flat["group_size"] == 6400


def test_settings_become_one_rllib_config():
    settings = resolve(
        lr=1e-4,
        num_env_runners=2,
        evaluation_tasks=3,
        evaluation_interval=7,
        **{"budgets.evidence": 0.25, "env_config.max_steps": 9},
    )
    config = settings.algorithm_config()
    config.validate()
    assert config.lr == 1e-4
    assert config.num_env_runners == 2
    assert config.evaluation_tasks == 3
    assert config.evaluation_interval == 7
    assert dict(config.budgets)["evidence"] == 0.25
    assert config.env_config["max_steps"] == 9
    assert type(config).__name__ == "TRCAConfig"


def test_a_file_for_one_algorithm_serves_another():
    other = switch({**read("quickstart"), "lambda_": 0.5}, "GRPO")
    assert "lambda_" not in other
    assert TextParameters.resolve(other).algorithm_config().algo_class.__name__ == "GRPO"
    with pytest.raises(ConfigError, match="'lambda_'"):
        TextParameters.resolve({**other, "lambda_": 0.5})


def test_a_complete_file_serves_another_algorithm_with_the_credit_rule_of_that_algorithm():
    complete = TextParameters.resolve(read("quickstart")).flat() | {"credit_config": {"x": 1}}
    assert complete["credit"] == "trca"
    grpo = TextParameters.resolve(switch(complete, "GRPO"))
    assert (grpo.credit, grpo.credit_config) == ("grpo", {})
    assert switch(complete, "TRCA") == complete
    unnamed = {key: value for key, value in complete.items() if key != "credit"}
    assert switch(unnamed, "TRCA") == unnamed
    assert "credit_config" not in switch(unnamed, "GRPO")


@pytest.mark.parametrize("algorithm", ["GRPO", "TRCA"])
def test_a_named_algorithm_replaces_the_rule_of_a_users_file(algorithm):
    rule = {"credit": "examples/own_rule/first_visits.py:first_visits", "credit_config": {"x": 1}}
    complete = TextParameters.resolve(read("quickstart")).flat() | rule
    parameters = TextParameters.resolve(switch(complete, algorithm))
    assert (parameters.credit, parameters.credit_config) == (algorithm.lower(), {})


def test_a_method_is_named_by_the_rule_that_credits():
    settings = TextParameters.resolve(read("quickstart")).flat()
    assert method_name(settings) == "TRCA"
    own = {**settings, "algorithm": "GRPO", "credit": "/home/me/my_rule.py:mine"}
    assert method_name(own) == "GRPO with my_rule.py:mine"


def test_the_own_defaults_of_an_algorithm_win_over_a_file_for_another():
    paper = {**read("quickstart"), "aggregation": "rollout_mean", "gamma": 0.9}
    assert "aggregation" not in switch(paper, "DrGRPO")
    assert switch(paper, "DrGRPO")["gamma"] == 0.9
    own = {**paper, "algorithm": "DrGRPO"}
    assert switch(own, "drgrpo")["aggregation"] == "rollout_mean"


def test_the_own_defaults_of_an_algorithm_do_not_reach_another():
    complete = TextParameters.resolve(switch(read("quickstart"), "DrGRPO")).flat()
    assert complete["aggregation"] == "rollout_sum"
    assert "aggregation" not in switch(complete, "GRPO")
    assert switch({**complete, "aggregation": "token"}, "GRPO")["aggregation"] == "token"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lrr": 3}, "quickstart: unknown setting 'lrr': did you mean 'lr'"),
        ({"lr": -1}, r"quickstart: lr is -1: Input should be greater than 0 \(Learning rate"),
        ({"budgets.evidnce": 3}, "unknown key 'budgets.evidnce': did you mean 'evidence'"),
        ({"budgets": 3}, "budgets is 3"),
        ({"env": "trca/ALFWord-v0"}, "did you mean 'trca/ALFWorld-v0'"),
        ({"env_config.gamess": "small"}, "unknown key 'env_config.gamess': did you mean 'games'"),
        ({"env_config.games": "smal"}, "did you mean 'small'"),
        ({"env_config": 3}, "env_config is 3"),
        ({"algorithm": "TRCO"}, "algorithm is 'TRCO': did you mean 'TRCA'"),
        ({"credit": "trac"}, "credit is 'trac': .*did you mean 'trca'"),
        ({"credit": "gigpo"}, "credit is 'gigpo': .*is the rule of algorithm GiGPO"),
        ({"lambda": 1}, "unknown setting 'lambda': did you mean 'lambda_'"),
        ({"omega": 1}, "BEACON, G2PO, GiGPO, GraphGPO, HCAPO and RewardFlow, not to TRCA"),
        ({"max_steps": 1}, "did you mean 'env_config.max_steps'"),
        ({"engine": "vlm"}, "engine is 'vlm': unknown engine 'vlm': did you mean 'vllm'"),
        ({"credit": "/no/such/rule.py:mine"}, "credit is"),
        ({"evaluation_split": "valid"}, "did you mean 'valid_seen'"),
        ({"seed": -1}, "seed is -1"),
        ({"seed": 2**32}, "seed is 4294967296: Input should be less than 4294967296"),
        ({"lr": True}, "lr is True: .*give a number, not true or false"),
        ({"lora_rank": True}, "lora_rank is True: .*give a number"),
        ({"replay_size": True}, "replay_size is True: .*give a number"),
        ({"task_curriculum": True}, "task_curriculum is True: .*give a number"),
        ({"env_config.max_steps": True}, "max_steps is True: give a whole number"),
        ({"env_config.max_steps": 2.5}, "max_steps is 2.5: give a whole number"),
        ({"env_config.max_steps": math.inf}, "max_steps is inf: give a whole number"),
        ({"iterations": 0}, "iterations is 0"),
    ],
)
def test_what_is_wrong_is_named_with_its_value_and_what_is_allowed(changes, message):
    with pytest.raises(ConfigError, match=message):
        resolve(**changes)


def test_false_switches_evaluation_off_and_infinity_is_kept():
    settings = resolve(evaluation_interval=False, **{"engine_config.limit": math.inf})
    assert settings.evaluation_interval is None
    flat = parse(yaml.safe_dump(settings.flat()), "config.yaml")
    assert flat["engine_config"] == {"limit": math.inf}
    assert flat == settings.flat()


def test_everything_wrong_is_named_at_once():
    with pytest.raises(ConfigError) as error:
        resolve(seed=-1, lr=-1, wrong=1)
    assert len(str(error.value).splitlines()) == 3


@pytest.mark.parametrize(
    ("sweep", "message"),
    [
        ({"base": "quickstart", "grid": {"lambda_": [2]}, "seeds": [0]}, "lambda_ is 2"),
        ({"base": "quickstart", "grid": {"lamda_": [1]}, "seeds": [0]}, "did you mean 'lambda_'"),
        ({"base": "quikstart", "grid": {"lr": [1]}, "seeds": [0]}, "did you mean 'quickstart'"),
        ({"base": "quickstart", "grid": {"lr": []}, "seeds": [0]}, "grid.lr"),
        ({"base": "quickstart", "grid": {"lr": [1]}, "seeds": []}, "seeds"),
        (
            {"base": "quickstart", "grid": {"lr": [1]}, "seeds": [0], "panels": [{"lr": 2}]},
            "lr is in grid and in panels",
        ),
        (
            {
                "base": "quickstart",
                "grid": {"lr": [1]},
                "seeds": [0],
                "panels": [{"gama": 1}, {"gama": 2}],
            },
            "did you mean 'gamma'",
        ),
        (
            {"base": "quickstart", "set": {"lr": 2}, "grid": {"lr": [1]}, "seeds": [0]},
            "lr is in set and in grid: leave it in one",
        ),
        (
            {
                "base": "quickstart",
                "sample": {"env_config.games": {"choice": ["small-1", "small-2"]}},
                "seeds": [0],
                "panels": [{"env_config.games": "small-3"}, {"env_config.games": "small-4"}],
            },
            "env_config.games is in sample and in panels",
        ),
        ({"base": "quickstart", "grid": {"seed": [1]}, "seeds": [0]}, "seed is in grid"),
        ({"base": "quickstart", "grid": {"lr": [1]}, "seeds": [0, 0]}, "a seed is listed twice"),
        ({"base": "quickstart", "grid": {"lr": [1]}, "seeds": [0, -1]}, "seeds.1 is -1"),
        ({"base": "quickstart", "grd": {}, "seeds": [0]}, "unknown key 'grd': did you mean 'grid'"),
    ],
)
def test_a_sweep_is_checked_with_every_trial_before_it_runs(sweep, message):
    with pytest.raises(ConfigError, match=message):
        SweepSettings.resolve(sweep, "mine")


def test_drawn_points_are_the_same_every_time_and_within_bounds():
    sweep = {
        "base": "quickstart",
        "grid": {"lambda_": [0.2, 0.8]},
        "sample": {
            "lr": {"loguniform": [1e-4, 1e-3]},
            "group_size": {"choice": [4, 8]},
            "tasks_per_iteration": {"randint": [2, 9]},
        },
        "samples": 20,
        "seeds": [0],
    }
    points = SweepSettings.resolve(sweep, "mine").every_point()
    assert points == SweepSettings.resolve(sweep, "mine").every_point()
    assert [p["lambda_"] for p in points] == [0.2] * 20 + [0.8] * 20
    rates = [p["lr"] for p in points]
    assert len(set(rates)) > 35
    assert all(1e-4 <= rate <= 1e-3 for rate in rates)
    assert 0.3 < sum(rate < 10**-3.5 for rate in rates) / 40 < 0.7  # even in the logarithm
    assert {p["group_size"] for p in points} == {4, 8}
    assert {type(p["tasks_per_iteration"]) for p in points} == {int}


RATES = [{"algorithm": "TRCA", "lr": 4e-4}, {"algorithm": "GRPO", "lr": 2e-4}]


def test_settings_of_a_listed_point_go_together_and_each_point_has_the_whole_grid():
    given = {"base": "quickstart", "points": RATES, "grid": {"group_size": [4, 8]}, "seeds": [0]}
    sweep = SweepSettings.resolve(given, "mine")
    trials = [sweep.trial(point, 0).flat() for point in sweep.every_point()]
    assert [(t["algorithm"], t["lr"], t["group_size"]) for t in trials] == [
        ("TRCA", 4e-4, 4),
        ("TRCA", 4e-4, 8),
        ("GRPO", 2e-4, 4),
        ("GRPO", 2e-4, 8),
    ]


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"points": [*RATES, {"algorithm": "RLOO"}]}, "lr is in some and not in others"),
        ({"points": RATES, "grid": {"lr": [1e-4]}}, "lr is in points and in grid"),
        ({"points": RATES, "search": "optuna", "samples": 4}, "there are points or a grid"),
        ({"points": []}, "points"),
    ],
)
def test_points_that_override_or_lack_a_setting_are_refused(parts, message):
    with pytest.raises(ConfigError, match=message):
        SweepSettings.resolve({"base": "quickstart", "seeds": [0], **parts}, "mine")


def test_a_drawn_value_runs_as_it_was_drawn():
    sweep = {
        "base": "quickstart",
        "sample": {
            "gamma": {"choice": [0.9999]},
            "lambda_": {"uniform": [0.99985, 0.99995]},
            "max_prompt_tokens": {"quniform": [1000, 2000, 8]},
        },
        "samples": 9,
        "seeds": [0],
    }
    points = SweepSettings.resolve(sweep, "mine").every_point()
    assert {point["gamma"] for point in points} == {0.9999}
    assert all(0.99985 <= point["lambda_"] <= 0.99995 for point in points)
    assert all(point["max_prompt_tokens"] % 8 == 0 for point in points)


@pytest.mark.parametrize(
    ("sample", "message"),
    [
        ({"lr": {"logunifrom": [1e-4, 1e-3]}}, "did you mean 'loguniform'"),
        ({"lr": {"loguniform": [-1, 1]}}, "sample.lr: loguniform of .*greater than 0"),
        ({"lr": {"uniform": [1]}}, "sample.lr: uniform of .*missing"),
        ({"lr": {"choice": []}}, "sample.lr: choice"),
        ({"lr": {"uniform": [1, 2], "choice": [1]}}, "sample.lr"),
        ({"lamda_": {"uniform": [0, 1]}}, "did you mean 'lambda_'"),
        ({"lambda_": {"uniform": [2, 3]}}, "lambda_ is 2"),
        ({}, "give points, grid or sample"),
    ],
)
def test_distributions_are_checked_before_a_sweep_runs(sample, message):
    with pytest.raises(ConfigError, match=message):
        SweepSettings.resolve({"base": "quickstart", "sample": sample, "seeds": [0]}, "mine")


def test_the_evaluation_split_is_the_environments_default_where_none_is_named():
    assert resolve().evaluation_split == "valid_unseen"
    settings = resolve(evaluation_split=None)
    assert settings.evaluation_split == "valid_seen"
    assert settings.flat()["evaluation_split"] == "valid_seen"
    assert settings.algorithm_config().evaluation_split == "valid_seen"


def test_the_case_of_an_algorithm_does_not_matter():
    settings = TextParameters.resolve(switch(read("quickstart"), "grpo"))
    assert settings.flat()["algorithm"] == "GRPO"
    assert TextParameters.resolve({**read("quickstart"), "algorithm": "trca"}).algorithm == "TRCA"
