"""The rubric rewards against the paper: the worked example, and its formulas as loops."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from trca.rubric import (
    Budgets,
    breakthrough_reward,
    contributions,
    foundational_reward,
    trca_reward,
)

EVIDENCE, INVALIDITY, EXECUTION = 0, 1, 2
CATEGORIES = np.repeat(np.array([EVIDENCE, INVALIDITY, EXECUTION], dtype=np.int8), 5)

amounts = st.floats(0, 100)
budgets = st.builds(Budgets, evidence=amounts, invalidity=amounts, execution=amounts)
positive_budgets = st.builds(Budgets, **dict.fromkeys(Budgets.model_fields, st.floats(0.1, 100)))
lambdas = st.floats(0, 1)
flags = st.integers(0, 1)


@st.composite
def batches(draw):
    """Judgments of several rollouts, one after another, and the rollout of each row."""
    lengths = draw(st.lists(st.integers(1, 12), min_size=1, max_size=5))
    judgments = draw(arrays(np.uint8, (sum(lengths), 15), elements=flags))
    return judgments, np.repeat(np.arange(len(lengths)), lengths)


def by_the_book(judgments, rollout, categories, budgets):
    """r^F and r^B as Appendix C writes them, one operator at a time."""
    totals = {
        EVIDENCE: budgets.evidence,
        INVALIDITY: -budgets.invalidity,
        EXECUTION: budgets.execution,
    }
    counts = {c: int((categories == c).sum()) for c in totals}
    foundational, breakthrough = [], []
    for row, fired in enumerate(judgments):
        r_f = r_b = 0.0
        for item, category in enumerate(categories):
            weight = totals[category] / counts[category]
            r_f += weight * fired[item]
            covered = judgments[:row][rollout[:row] == rollout[row], item].any()
            if category != INVALIDITY and not covered:
                r_b += weight * fired[item]
        foundational.append(r_f)
        breakthrough.append(r_b)
    return np.array(foundational), np.array(breakthrough)


def test_the_worked_example():
    """Table app_worked_example: see the apple, take it, see it again, a malformed action."""
    location, malformed, take = 1, 5, 12
    judgments = np.zeros((4, 15), dtype=np.uint8)
    for step, item in enumerate((location, take, location, malformed)):
        judgments[step, item] = 1
    chosen = Budgets(evidence=2.0, invalidity=3.0, execution=4.0)
    rollout = np.zeros(4, dtype=np.int64)
    evidence, invalidity, execution = 2.0 / 5, 3.0 / 5, 4.0 / 5

    r_f = foundational_reward(judgments, CATEGORIES, chosen)
    r_b = breakthrough_reward(judgments, rollout, CATEGORIES, chosen)

    np.testing.assert_allclose(r_f, [evidence, execution, evidence, -invalidity])
    np.testing.assert_allclose(r_b, [evidence, execution, 0, 0])
    np.testing.assert_allclose(
        trca_reward(r_f, r_b, 0.8), [evidence, execution, 0.2 * evidence, -0.2 * invalidity]
    )


@given(batches(), budgets, arrays(np.int8, 15, elements=st.integers(0, 2)))
def test_equals_the_formulas_written_as_loops(batch, chosen, categories):
    judgments, rollout = batch
    r_f, r_b = by_the_book(judgments, rollout, categories, chosen)
    np.testing.assert_allclose(foundational_reward(judgments, categories, chosen), r_f, atol=1e-9)
    np.testing.assert_allclose(
        breakthrough_reward(judgments, rollout, categories, chosen), r_b, atol=1e-9
    )


def test_budgets_are_shared_within_a_category_of_any_size():
    categories = np.array([EVIDENCE, EVIDENCE, EXECUTION], dtype=np.int8)
    weights = contributions(categories, Budgets(evidence=1.0, invalidity=9.0, execution=3.0))
    np.testing.assert_allclose(weights, [0.5, 0.5, 3.0])


def test_rollouts_without_rows_give_no_rows():
    nothing = np.zeros((0, 15), dtype=np.uint8)
    assert foundational_reward(nothing, CATEGORIES, Budgets()).shape == (0,)
    r_b = breakthrough_reward(nothing, np.zeros(0, dtype=np.int64), CATEGORIES, Budgets())
    assert r_b.shape == (0,)
    assert r_b.dtype == np.float64


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf"), "1", None, True])
def test_a_budget_that_is_no_amount_is_refused(value):
    with pytest.raises(ValueError, match=r"the invalidity budget is .*: give a finite number"):
        Budgets.of({"invalidity": value})
    with pytest.raises(ValueError, match="did you mean 'execution'"):
        Budgets.of({"exection": 1.0})


@pytest.mark.parametrize("lambda_", [-0.1, 1.1, float("nan")])
def test_lambda_outside_zero_to_one_is_refused(lambda_):
    with pytest.raises(ValueError, match="give a number from 0 to 1"):
        trca_reward(np.zeros(1), np.zeros(1), lambda_)
