import json

import pytest
from ray import tune

from trca.algorithms import ALGORITHMS, GiGPOConfig, GRPOConfig, TRCAConfig
from trca.algorithms.parameters import TextParameters


def test_defaults_are_the_papers_and_stand_as_attributes():
    config = TRCAConfig()
    assert (config.lr, config.gamma, config.lambda_) == (8e-7, 0.95, 0.8)
    assert (config.group_size, config.minibatch_size, config.max_new_tokens) == (8, 256, 512)
    assert (config.clip_low, config.clip_high, config.kl_coeff) == (0.2, 0.28, 0.012)
    assert config.budgets == {"evidence": 1.0, "invalidity": 1.0, "execution": 1.0}


@pytest.mark.parametrize("config_class", [TRCAConfig, GRPOConfig, GiGPOConfig])
def test_every_field_has_a_description(config_class):
    for name, field in config_class.parameters_class.model_fields.items():
        assert field.description, name


def test_each_algorithm_has_its_own_credit_rule():
    assert [c().credit for c in (TRCAConfig, GRPOConfig, GiGPOConfig)] == ["trca", "grpo", "gigpo"]
    assert {name: a.get_default_config().algo_class for name, a in ALGORITHMS.items()} == ALGORITHMS


def test_a_misspelt_name_is_answered_with_the_nearest_one():
    with pytest.raises(ValueError, match=r"'lamda_'.*did you mean 'lambda_'"):
        TRCAConfig().training(lamda_=0.5)
    with pytest.raises(ValueError, match=r"'num_env_runer'.*did you mean 'num_env_runners'"):
        TRCAConfig().update_from_dict({"num_env_runer": 2})
    with pytest.raises(ValueError, match=r"'evaluation_task'.*did you mean 'evaluation_tasks'"):
        TRCAConfig().evaluation(evaluation_task=2)


def test_a_parameter_of_another_algorithm_is_unknown():
    with pytest.raises(ValueError, match="omega"):
        TRCAConfig().training(omega=1.0)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("lambda_", 1.5, "'lambda_' is 1.5: input should be less than or equal to 1"),
        ("group_size", 0, "'group_size' is 0"),
        ("ratio_level", "word", "'action', 'action_mean' or 'token'"),
        ("budgets", {"evidnce": 1.0}, "budgets.evidnce"),
        ("lr", "fast", "'lr' is 'fast'"),
    ],
)
def test_a_value_out_of_bounds_is_named_with_what_is_allowed(name, value, message):
    with pytest.raises(ValueError, match=message):
        TRCAConfig().training(**{name: value})


def test_validate_checks_attributes_that_were_set_by_hand():
    config = TRCAConfig().environment("trca/ALFWorld-v0")
    config.validate()
    config.lambda_ = 2.0
    with pytest.raises(ValueError, match="lambda_"):
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
    assert (config.num_env_runners, config.lambda_, config.train_split) == (2, 0.5, "valid_seen")
    assert config.budgets == {"evidence": 1.0, "invalidity": 2.5, "execution": 1.0}
    assert (config.evaluation_interval, config.evaluation_tasks) == (3, 7)
    assert (config.adam_betas, config.model) == ((0.9, 0.99), "some/model")


def test_a_config_survives_its_dictionary_and_a_copy():
    config = TRCAConfig().environment("trca/ALFWorld-v0").training(lambda_=0.3, model="m")
    again = TRCAConfig().update_from_dict(config.to_dict())
    assert again.parameters() == config.copy().parameters() == config.parameters()
    assert json.dumps(config.parameters())


def test_search_spaces_are_accepted_and_their_values_checked():
    config = TRCAConfig().training(lambda_=tune.grid_search([0.0, 0.8]), lr=tune.uniform(0, 1))
    assert config.lambda_ == {"grid_search": [0.0, 0.8]}
    with pytest.raises(ValueError, match="lambda_"):
        TRCAConfig().training(lambda_=tune.grid_search([0.0, 1.8]))


def test_the_parameter_model_stands_on_its_own():
    assert TextParameters(group_size=4).group_size == 4
