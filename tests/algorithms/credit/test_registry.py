"""Credit rules by name and by file, and their arguments."""

import re
from pathlib import Path

import numpy as np
import pytest

from tests.algorithms.credit.step_batches import step_batch
from trca.algorithms import GRPOConfig, TRCAConfig
from trca.algorithms.credit import Credited, bind_credit

PAGE = Path(__file__).parents[3] / "docs" / "algorithms.md"
BATCH = step_batch([2, 1], [0, 0], [0, 1, 0], [0, 0, 0])

OWN_RULE = """
import numpy as np

from trca.algorithms.rules.trca import TRCAParameters

OWN = 1.0

def by_lambda(batch, parameters: TRCAParameters, *, height=2.0):
    return np.full(len(batch), parameters.lambda_ * parameters.budgets.evidence * height)

def without_class(batch, parameters):
    return np.zeros(len(batch))

def constant(batch, *, gamma, height=2.0):
    return np.full(len(batch), gamma * height)

def too_short(batch):
    return np.zeros(1)

def undefined(batch):
    return np.full(len(batch), np.nan)

def raises(batch):
    return np.zeros(len(batch))[len(batch)]
"""


@pytest.fixture
def own(tmp_path):
    path = tmp_path / "own.py"
    path.write_text(OWN_RULE)
    return path


def test_a_rule_of_ones_own_gets_settings_and_its_own_parameters_by_name(own):
    settings = {"gamma": 0.5, "lambda_": 0.8}
    for given, expected in (({}, 1), ({"height": 6.0}, 3)):
        rule = bind_credit(f"{own}:constant", {**settings, "credit_config": given})
        np.testing.assert_array_equal(rule(BATCH), [expected] * 3)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"heigth": 1.0}, "has no parameter 'heigth': did you mean 'height'"),
        ({"gamma": 0.9}, "credit_config.gamma has no effect: gamma is a setting"),
        ({"height": "1e1"}, "credit_config.height is '1e1': give a number"),
    ],
)
def test_a_parameter_of_its_own_that_is_wrong_is_named(own, given, message):
    with pytest.raises(ValueError, match=message):
        bind_credit(f"{own}:constant", {"gamma": 0.5, "credit_config": given})


def test_an_own_rule_may_take_the_parameter_object_of_an_algorithm(own):
    settings = TRCAConfig().training(lambda_=0.5, budgets={"evidence": 4.0}).settings
    rule = bind_credit(f"{own}:by_lambda", settings)
    np.testing.assert_array_equal(rule(BATCH), [4, 4, 4])
    higher = settings.model_copy(update={"credit_config": {"height": 3.0}})
    rule = bind_credit(f"{own}:by_lambda", higher)
    np.testing.assert_array_equal(rule(BATCH), [6, 6, 6])
    assert rule.parameters["lambda_"] == 0.5
    assert not {"lr", "credit", "parameters"} & rule.parameters.keys()


def test_the_parameter_object_of_another_algorithm_is_refused(own):
    with pytest.raises(ValueError, match=r"takes TRCAParameters, .* set algorithm to TRCA"):
        bind_credit(f"{own}:by_lambda", GRPOConfig().settings)
    with pytest.raises(ValueError, match="annotate the class, such as parameters: TRCAParameters"):
        bind_credit(f"{own}:without_class", GRPOConfig().settings)


def test_a_registered_rule_reads_the_discount_and_the_settings_of_its_algorithm():
    read = {name: [*bind_credit(name, {}).parameters] for name in ("trca", "hcapo", "graphgpo")}
    assert read["trca"][:3] == ["gamma", "budgets", "lambda_"]
    assert read["hcapo"] == ["gamma", "omega", "hindsight_temperature", "hindsight_clip"]
    assert "gamma" not in read["graphgpo"]


def test_the_rule_of_the_page_can_be_copied(tmp_path):
    """Rollout 0 sees 1, 0 and 1; rollout 1 sees 1: the last step of rollout 0 has no bonus."""
    (code,) = re.findall(r"```python\n(import numpy.*?)```", PAGE.read_text(), re.DOTALL)
    path = tmp_path / "new_pages.py"
    path.write_text(code)
    batch = step_batch([3, 1], [0, 0], np.zeros(4), [0, 1, 0, 0], ends=[1, 1])
    settings = {"gamma": 0.0, "credit_config": {"bonus": 0.5}}
    advantages = bind_credit(f"{path}:new_pages", settings)(batch)
    np.testing.assert_allclose(advantages, np.array([1, 1, -3, 1]) / np.sqrt(3), rtol=1e-5)


def test_a_missing_parameter_is_named(own):
    with pytest.raises(ValueError, match="needs gamma"):
        bind_credit(f"{own}:constant", {})


@pytest.mark.parametrize(
    ("function", "message"),
    [("too_short", r"shape \(1,\) for 3 steps"), ("undefined", "returned nan for step 0")],
)
def test_a_wrong_result_is_refused(own, function, message):
    with pytest.raises(ValueError, match=message):
        bind_credit(f"{own}:{function}", {})(BATCH)


def test_an_exception_names_the_rule_and_its_line(own):
    with pytest.raises(IndexError) as caught:
        bind_credit(f"{own}:raises", {})(BATCH)
    assert caught.value.__notes__ == ["in credit rule own.py:raises, at own.py:24 in raises"]


def test_an_unknown_or_broken_rule_is_named(own):
    with pytest.raises(ValueError, match=r"unknown credit rule 'trac': did you mean 'trca'"):
        bind_credit("trac", {})
    with pytest.raises(ValueError, match=r"has no 'constants': did you mean 'constant'"):
        bind_credit(f"{own}:constants", {})
    with pytest.raises(ValueError, match=r"credit rule '.*own.py:OWN' is a float"):
        bind_credit(f"{own}:OWN", {"gamma": 0.5})


def test_columns_of_tokens_have_a_row_for_each_token_and_targets_a_value_of_each_head():
    rule, steps = bind_credit("grpo", {}), np.zeros(3)
    rule.check_tokens(Credited(steps), tokens=5, heads=0)
    rule.check_tokens(Credited(steps, np.zeros(5), np.zeros((5, 2))), tokens=5, heads=2)
    for wrong, heads, message in (
        (Credited(steps, np.zeros(4)), 0, r"token_advantages of shape \(4,\) for 5 resp"),
        (Credited(steps, np.zeros(6)), 0, r"return shape \(5,\)"),
        (Credited(steps, None, np.zeros((5, 1))), 2, r"value_targets of shape \(5, 1\)"),
        (Credited(steps, None, np.zeros((6, 2))), 2, r"return shape \(5, 2\)"),
        (Credited(steps), 1, "returned no value_targets for the critic"),
    ):
        with pytest.raises(ValueError, match=message):
            rule.check_tokens(wrong, tokens=5, heads=heads)
