import ast
import json
import warnings
from collections import Counter
from pathlib import Path

import pytest
from pydantic import BaseModel
from ray import tune

from trca.algorithms import (
    ALGORITHMS,
    BEACONConfig,
    DrGRPOConfig,
    GiGPOConfig,
    GRPOConfig,
    ReinforcePlusPlusConfig,
    TRCAConfig,
)
from trca.algorithms.base import text_config
from trca.algorithms.settings.parameters import TextParameters, switch
from trca.tune_configs.files import read


def test_defaults_are_the_papers_and_stand_as_attributes():
    config = TRCAConfig()
    assert (config.lr, config.gamma, config.lambda_) == (8e-7, 0.95, 0.8)
    assert (config.group_size, config.minibatch_size, config.max_new_tokens) == (8, 256, 512)
    assert (config.clip_low, config.clip_high, config.kl_coeff) == (0.2, 0.28, 0.012)
    assert config.budgets == {"evidence": 1.0, "invalidity": 1.0, "execution": 1.0}


@pytest.fixture
def built(monkeypatch):
    """The settings classes of all objects that are built from values."""
    classes = []

    def build(self, **values):
        classes.append(type(self))
        BaseModel.__init__(self, **values)

    monkeypatch.setattr(TextParameters, "__init__", build)
    return classes


def test_settings_are_built_once_for_each_change(built):
    settings = TextParameters.resolve(read("quickstart"))
    assert len(built) == 1
    config = settings.algorithm_config()
    config.validate()
    assert config.settings == config.copy().settings == settings
    assert len(built) <= 4  # with the defaults of the class, once in a process, and the copy's
    built.clear()
    changed = config.training(lambda_=0.5, lr=1e-3, budgets={"evidence": 2.0})
    assert len(built) == 1
    assert changed.settings.lambda_ == 0.5
    assert len(built) == 2


def test_a_change_in_place_reaches_the_settings_with_the_next_check():
    config = TRCAConfig.from_preset("quickstart")
    assert config.settings.env_config["max_steps"] == 16
    config.env_config["max_steps"] = 5
    config.validate()
    assert config.settings.env_config["max_steps"] == 5


@pytest.mark.parametrize("algorithm", ALGORITHMS.values())
def test_every_field_has_a_description(algorithm):
    for name, field in algorithm.config_class.parameters_class.model_fields.items():
        assert field.description, name


def test_no_config_states_the_default_of_a_setting_again():
    fields = {name for c in ALGORITHMS.values() for name in settings_of(c)}
    again = [
        ast.unparse(node)
        for path in Path(text_config.__file__).parents[1].rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Attribute) and target.attr in fields
    ]
    assert not again


def settings_of(algorithm):
    return algorithm.config_class.parameters_class.model_fields


def test_each_algorithm_has_its_own_credit_rule():
    assert [c().credit for c in (TRCAConfig, GRPOConfig, GiGPOConfig)] == ["trca", "grpo", "gigpo"]
    for algorithm in ALGORITHMS.values():
        assert algorithm.config_class().algo_class is algorithm
        assert type(algorithm.get_default_config()) is algorithm.config_class
        assert algorithm.get_default_config().algo_class is algorithm


def test_an_own_default_keeps_the_bounds_and_the_meaning():
    field = DrGRPOConfig.parameters_class.model_fields["aggregation"]
    assert field.description == TextParameters.model_fields["aggregation"].description
    with pytest.raises(ValueError, match=r"gamma is 2\.0"):
        ReinforcePlusPlusConfig().training(gamma=2.0)


def test_the_page_names_every_own_default():
    page = Path(__file__).parents[3] / "docs" / "algorithms.md"
    _, _, told = page.read_text().partition("- **Own defaults**:")
    told, _, _ = told.partition("\n- ")
    named = Counter()
    for algorithm in ALGORITHMS.values():
        model = algorithm.config_class.parameters_class
        for name in model.own_defaults():
            default = model.model_fields[name].default
            number = isinstance(default, float)
            said = f"{default:g}" if number else json.dumps(default).strip('"')
            named[f"`{name}: {said}`"] += 1
    assert {text: told.count(text) for text in named} == named


INSTEAD = "'train_batch_size' has no effect here: .*tasks_per_iteration x group_size"
OWNERS = "'lambda_' belongs to ShapedReturn and TRCA, not to GRPO"
SHARED = "policies share their settings: set policy_lr"
OTHER_RULE = "'trca' is the rule of algorithm TRCA: set algorithm to TRCA, or credit to 'grpo'"
BAND = r"token_ratio_band is \[5, 0.5\]: give the lower bound first"


@pytest.mark.parametrize(
    ("config", "method", "name", "value", "message"),
    [
        (TRCAConfig, "training", "lamda_", 0.5, "'lamda_'.*did you mean 'lambda_'"),
        (TRCAConfig, "evaluation", "evaluation_task", 2, "did you mean 'evaluation_tasks'"),
        (TRCAConfig, "update_from_dict", "num_env_runer", 2, "did you mean 'num_env_runners'"),
        (TRCAConfig, "training", "alpha", 1.0, "'alpha' belongs to HGPO, not to TRCA"),
        (GRPOConfig, "update_from_dict", "lambda", 0.5, OWNERS),
        (GRPOConfig, "update_from_dict", "lambda_", 0.5, OWNERS),
        (TRCAConfig, "training", "learning_rate", 1, "did you mean 'lr'"),
        (TRCAConfig, "training", "Learning-Rate", 1, "did you mean 'lr'"),
        (TRCAConfig, "training", "LR", 1, "did you mean 'lr'"),
        (TRCAConfig, "training", "num_generations", 1, "did you mean 'group_size'"),
        (TRCAConfig, "training", "clip_param", 1, "did you mean 'clip_low and clip_high'"),
        (TRCAConfig, "training", "vf_loss_coeff", 1, "no effect here: algorithm TurnPPO has a"),
        (TRCAConfig, "training", "train_batch_size", 64, INSTEAD),
        (TRCAConfig, "update_from_dict", "train_batch_size", 64, INSTEAD),
        (TRCAConfig, "training", "lambda_", 1.5, "lambda_ is 1.5: Input should be less than or"),
        (TRCAConfig, "training", "group_size", 0, "group_size is 0"),
        (TRCAConfig, "training", "ratio_level", "word", "'action', 'action_mean' or 'token'"),
        (TRCAConfig, "training", "budgets", {"evidnce": 1.0}, "budgets.evidnce"),
        (TRCAConfig, "training", "lr", "fast", "lr is 'fast'"),
        (TRCAConfig, "training", "token_ratio_band", [5, 0.5], BAND),
        (TRCAConfig, "training", "engine", "vlm", "unknown engine 'vlm'"),
        (TRCAConfig, "reporting", "checkpoint_interval", 0, "checkpoint_interval is 0"),
        (TRCAConfig, "reporting", "tracking", ["wanbd"], "did you mean 'wandb'"),
        (TRCAConfig, "multi_agent", "algorithm_config_overrides_per_module", {"p": {}}, SHARED),
        (GRPOConfig, "training", "credit", "trca", OTHER_RULE),
    ],
)
def test_a_wrong_name_or_value_is_refused_with_what_to_use(config, method, name, value, message):
    given = ([{name: value}], {}) if method == "update_from_dict" else ([], {name: value})
    with pytest.raises(ValueError, match=message) as refusal:
        getattr(config(), method)(*given[0], **given[1])
    assert "\n" not in str(refusal.value)


def test_a_milestone_of_the_environment_is_refused_for_a_team():
    config = BEACONConfig.from_preset("quickstart").training(milestones="environment")
    config.validate()
    config.env_config["team"] = "alfworld_planner"
    with pytest.raises(ValueError, match="a message of a team completes none"):
        config.validate()


def test_a_preset_gives_a_whole_config():
    config = TRCAConfig.from_preset("quickstart")
    assert isinstance(config, TRCAConfig)
    assert (config.env, config.env_config["games"]) == ("trca/ALFWorld-v0", "small")
    assert (config.model, config.template, config.max_new_tokens) == ("tiny", "compact", 24)
    assert (config.lr, config.num_env_runners, config.evaluation_interval) == (4e-4, 2, 5)
    in_a_trial = TRCAConfig().update_from_dict(config.to_dict())
    assert in_a_trial.settings == config.settings
    assert in_a_trial.env_config == config.env_config
    assert GRPOConfig.from_preset("quickstart").credit == "grpo"
    paper = "paper/alfworld_qwen2.5_1.5b"
    aggregations = [c.from_preset(paper).aggregation for c in (GRPOConfig, DrGRPOConfig)]
    assert aggregations == ["rollout_mean", "rollout_sum"]
    with pytest.raises(ValueError, match="did you mean 'quickstart'"):
        TRCAConfig.from_preset("quikstart")


@pytest.mark.parametrize("of", ["DrGRPO", "IGPO", "Imitation", "TRCA", "TurnPPO"])
def test_the_settings_of_another_algorithms_run_give_the_defaults_of_this_one(of, tmp_path):
    path = tmp_path / "config.yaml"
    settings = TextParameters.resolve(switch(read("quickstart"), of)).flat()
    path.write_text(json.dumps(settings))
    config = GRPOConfig.from_preset(path)
    plain = GRPOConfig.from_preset("quickstart")
    assert config.settings.hyperparameters() == plain.settings.hyperparameters()
    own = {**settings, "credit": "examples/own_rule/first_visits.py:first_visits"}
    path.write_text(json.dumps(own | {"credit_config": {"x": 1}}))
    replaced = GRPOConfig.from_preset(path)
    assert (replaced.credit, replaced.credit_config) == ("grpo", {})
    same = {**read("quickstart"), "algorithm": "GRPO", "credit": own["credit"]}
    path.write_text(json.dumps(same))
    assert GRPOConfig.from_preset(path).credit == str(Path(own["credit"]).resolve())


def test_a_tiny_model_with_the_papers_prompt_is_warned_about():
    config = TRCAConfig().environment("trca/ALFWorld-v0")
    with pytest.warns(UserWarning, match=r"TRCAConfig.from_preset\('quickstart'\)"):
        config.validate()
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        config.training(template="compact").validate()


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [("lambda_", 2.0, "lambda_"), ("explore", False, "'explore' has no effect here")],
)
def test_validate_checks_attributes_that_were_set_by_hand(name, value, message):
    config = TRCAConfig().environment("trca/ALFWorld-v0").training(template="compact")
    config.validate()
    setattr(config, name, value)
    with pytest.raises(ValueError, match=message):
        config.validate()


def test_a_config_without_a_world_is_refused():
    with pytest.raises(ValueError, match="trca/ALFWorld-v0"):
        TRCAConfig().validate()


def test_a_flat_dictionary_sets_ours_and_rllibs_settings():
    config = TRCAConfig().update_from_dict(
        {
            "env": "trca/ALFWorld-v0",
            "env_config": {"split": "valid_seen"},
            "num_env_runners": 2,
            "lambda": 0.5,
            "budgets": {"invalidity": 2.5},
            "adam_betas": [0.9, 0.99],
            "evaluation_interval": 3,
            "evaluation_tasks": 7,
            "model": "some/model",
        }
    )
    assert (config.num_env_runners, config.lambda_, config.settings.train_split) == (
        2,
        0.5,
        "valid_seen",
    )
    assert config.budgets == {"evidence": 1.0, "invalidity": 2.5, "execution": 1.0}
    assert (config.evaluation_interval, config.evaluation_tasks) == (3, 7)
    assert (config.adam_betas, config.model) == ((0.9, 0.99), "some/model")


def test_search_spaces_are_accepted_and_their_values_checked():
    config = TRCAConfig().training(lambda_=tune.grid_search([0.0, 0.8]), lr=tune.uniform(0, 1))
    assert config.lambda_ == {"grid_search": [0.0, 0.8]}
    with pytest.raises(ValueError, match="lambda_"):
        TRCAConfig().training(lambda_=tune.grid_search([0.0, 1.8]))


@pytest.mark.parametrize("setting", [{"budgets": {"evidence": 2.0}}, {"lambda_": 0.5}])
def test_rewards_are_set_by_the_algorithm_and_not_by_the_environment(setting):
    config = TRCAConfig().environment("trca/ALFWorld-v0", env_config=setting)
    with pytest.raises(ValueError, match=rf"env_config.{next(iter(setting))} has no effect"):
        config.validate()


def test_no_evaluations_may_be_zero_as_in_rllib(make_config):
    config = make_config().evaluation(evaluation_interval=0)
    config.validate()
    assert config.settings.evaluation_interval is None
