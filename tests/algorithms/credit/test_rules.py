"""What every credit rule of the house keeps to."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.algorithms.credit.step_batches import (
    TEXTS,
    batches,
    step_batch,
    take_rollouts,
    what_it_reads,
)
from trca.algorithms import ALGORITHMS
from trca.algorithms.credit import CREDIT_RULES, bind_credit

RULES = sorted(a.config_class.parameters_class.own_rule() for a in ALGORITHMS.values())
ON_THE_BATCH = {"reinforce_plus_plus", "turn_ppo", "shaped_turn_ppo", "stepsearch", "hiper"}
"""Rules whose statistics are those of the whole batch."""
BESIDE_OUTCOMES = {"trca", "shaped_return", "shaped_turn_ppo", "beacon", "turn_credit"} | {
    *("igpo", "imitation", "turn_ppo", "stepsearch", "hiper")
}
"""Rules that credit judgments, demonstrations, gains about the answer, or values of a critic."""
few = settings(max_examples=25)


def credit(name, batch):
    return bind_credit(name, {})(batch, **what_it_reads(name, batch))


def test_each_algorithm_has_a_registered_rule_of_its_own():
    assert {*RULES} <= {*CREDIT_RULES.names()}


@pytest.mark.parametrize("name", RULES)
def test_it_gives_one_finite_advantage_a_step_and_none_for_none(name):
    batch = step_batch([2, 1], [0, 0], [0, 1, 0], [0, 0, 0], texts=TEXTS)
    assert credit(name, batch).shape == (3,)
    assert credit(name, step_batch([], [], [], [])).shape == (0,)


@pytest.mark.parametrize("name", RULES)
@few
@given(batches(), st.randoms())
def test_the_order_of_rollouts_does_not_matter(name, batch, random):
    order = list(dict.fromkeys(batch.rollout.tolist()))
    random.shuffle(order)
    shuffled, rows = take_rollouts(batch, order)
    np.testing.assert_allclose(credit(name, shuffled), credit(name, batch)[rows], atol=1e-6)


@pytest.mark.parametrize("name", sorted({*RULES} - ON_THE_BATCH))
@few
@given(batches())
def test_groups_do_not_see_each_other(name, batch):
    advantages = credit(name, batch)
    for group in np.unique(batch.group):
        alone, rows = take_rollouts(batch, np.unique(batch.rollout[batch.group == group]))
        np.testing.assert_allclose(credit(name, alone), advantages[rows], atol=1e-6)


@pytest.mark.parametrize("name", sorted({*RULES} - BESIDE_OUTCOMES))
@few
@given(batches(outcomes=(0.0,)))
def test_without_success_there_is_no_credit_but_of_its_own(name, batch):
    batch = replace(batch, parsed=np.ones(len(batch), dtype=bool))
    assert not credit(name, batch).any()
