"""A user's credit rule with a parameter: by hand, in training, in sweeps."""

from pathlib import Path

import numpy as np
import pytest
from ray import tune

from tests.algorithms.credit.step_batches import step_batch
from trca.algorithms import GRPOConfig
from trca.algorithms.credit import bind_credit
from trca.algorithms.settings.parameters import TextParameters, switch
from trca.algorithms.settings.sweeps import SweepSettings
from trca.tune_configs.files import ConfigError, assign, assignments, read

FOLDER = Path(__file__).parents[2] / "examples" / "own_rule"
RULE = f"{FOLDER}/first_visits.py:first_visits"


def test_the_rule_agrees_with_a_hand_computed_case() -> None:
    """Rollout 0 visits 0, 1, 0 and rollout 1 stays in 0: only the first step finds a new state."""
    batch = step_batch([2, 2], [0, 0], np.zeros(4), [0, 1, 0, 0], ends=[0, 0])
    rule = bind_credit(RULE, {"gamma": 0.5, "credit_config": {"bonus": 3.0}})
    # R = 3, 0, 0, 0; context 0 holds 3, 0, 0 with mean 1 and deviation sqrt 2.
    expected = np.array([2, 0, -1, -1]) / np.sqrt(2)
    np.testing.assert_allclose(rule(batch), expected, rtol=1e-5)
    with pytest.raises(ValueError, match="bonus is -1"):
        bind_credit(RULE, {"gamma": 0.5, "credit_config": {"bonus": -1}})(batch)


def test_the_rule_has_at_most_fifty_lines() -> None:
    assert len((FOLDER / "first_visits.py").read_text().splitlines()) <= 50


def test_the_sweep_of_the_rule_has_a_trial_for_every_value() -> None:
    sweep = SweepSettings.resolve(read(str(FOLDER / "sweep.yaml")), "sweep", need_data=False)
    trials = [sweep.trial(point, 0, need_data=False) for point in sweep.every_point()]
    assert [t.credit_config["bonus"] for t in trials] == [0.0, 0.1, 0.5]
    assert {t.credit for t in trials} == {RULE}


def test_the_parameter_of_the_rule_is_a_setting() -> None:
    changed = assignments([f"credit={RULE}", "credit_config.bonus=0.3"])
    settings = TextParameters.resolve(assign(switch(read("quickstart"), "GRPO"), changed))
    assert settings.algorithm_config().credit_config == {"bonus": 0.3}
    with pytest.raises(ConfigError, match="credit_config is 3: Input should be a valid dictionary"):
        TextParameters.resolve({"credit_config": 3})


def test_tune_searches_the_parameter_of_the_rule() -> None:
    values = {"bonus": tune.grid_search([0.0, 0.5])}
    config = GRPOConfig().training(credit=RULE, credit_config=values)
    assert config.to_dict()["credit_config"] == {"bonus": {"grid_search": [0.0, 0.5]}}
