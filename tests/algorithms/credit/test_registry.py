"""Credit rules by name and by file, and what they are given."""

import numpy as np
import pytest

from tests.algorithms.credit.step_batches import step_batch
from trca.algorithms.credit import Credited, bind_credit

BATCH = step_batch([2, 1], [0, 0], [0, 1, 0], [0, 0, 0])

OWN_RULE = """
import numpy as np

OWN = 1.0

def constant(batch, *, gamma, height=2.0):
    return np.full(len(batch), gamma * height)

def too_short(batch):
    return np.zeros(1)

def undefined(batch):
    return np.full(len(batch), np.nan)
"""


@pytest.fixture
def own(tmp_path):
    path = tmp_path / "own.py"
    path.write_text(OWN_RULE)
    return path


def test_a_rule_of_ones_own_gets_the_parameters_it_names(own):
    parameters = {"gamma": 0.5, "lambda_": 0.8}
    advantages = bind_credit(f"{own}:constant", parameters)(BATCH)
    np.testing.assert_array_equal(advantages, np.ones(3))


def test_a_parameter_of_its_own_is_set_by_name(own):
    parameters = {"gamma": 0.5, "credit_config": {"height": 6.0}}
    advantages = bind_credit(f"{own}:constant", parameters)(BATCH)
    np.testing.assert_array_equal(advantages, [3, 3, 3])


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


def test_a_missing_parameter_is_named(own):
    with pytest.raises(ValueError, match="needs gamma"):
        bind_credit(f"{own}:constant", {})


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("too_short", r"shape \(1,\) for 3 steps"),
        ("undefined", "returned nan for step 0"),
    ],
)
def test_a_wrong_result_is_refused(own, function, message):
    with pytest.raises(ValueError, match=message):
        bind_credit(f"{own}:{function}", {})(BATCH)


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
        (
            Credited(steps, np.zeros(4)),
            0,
            r"token_advantages of shape \(4,\) for 5 resp",
        ),
        (Credited(steps, np.zeros(6)), 0, r"return shape \(5,\)"),
        (Credited(steps, None, np.zeros((5, 1))), 2, r"value_targets of shape \(5, 1\)"),
        (Credited(steps, None, np.zeros((6, 2))), 2, r"return shape \(5, 2\)"),
        (Credited(steps), 1, "gave the critic nothing to learn"),
    ):
        with pytest.raises(ValueError, match=message):
            rule.check_tokens(wrong, tokens=5, heads=heads)
