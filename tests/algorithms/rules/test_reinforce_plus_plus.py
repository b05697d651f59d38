"""REINFORCE++ by hand and against the slow version, in both forms."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.algorithms.credit.slow_rules import slow_reinforce_plus_plus
from tests.algorithms.credit.step_batches import batches, rule, step_batch
from trca.algorithms import ReinforcePlusPlusConfig

reinforce = rule("reinforce_plus_plus")


def test_returns_are_normalised_over_all_steps_of_the_batch_by_hand():
    """Step returns 1, 1 of one group and 0, 0 of another: mean 1/2, variance 1/3 with ddof 1."""
    batch = step_batch([2, 2], [0, 1], [0, 1, 0, 0], np.zeros(4))
    expected = np.sqrt(3) / 2 * np.array([1, 1, -1, -1])
    np.testing.assert_allclose(reinforce(batch, epsilon=0.0), expected)


def test_a_discount_ranks_the_steps_of_a_rollout():
    """Returns 1/2 and 1 lie 1/4 from their mean, and their deviation is 1/sqrt 8."""
    batch = step_batch([2], [0], [0, 1], np.zeros(2))
    expected = np.sqrt(0.5) * np.array([-1, 1])
    np.testing.assert_allclose(reinforce(batch, gamma=0.5, epsilon=0.0), expected)


def test_the_baseline_form_subtracts_the_groups_mean_first():
    """Group 0 has outcomes 1, 0; group 1 has 1, 1, without a difference: 1/2, -1/2, 0, 0."""
    batch = step_batch([1, 1, 1, 1], [0, 0, 1, 1], [1, 0, 1, 1], np.zeros(4))
    expected = np.sqrt(6) / 2 * np.array([1, -1, 0, 0])
    advantages = reinforce(batch, group_baseline=True, epsilon=0.0)
    np.testing.assert_allclose(advantages, expected, atol=1e-12)
    assert reinforce(batch)[3] > 0


def test_a_batch_of_ties_has_no_credit():
    for form in (False, True):
        ties = step_batch([3, 1], [0, 1], [0, 0, 1, 1], np.zeros(4))
        assert not reinforce(ties, gamma=1.0, group_baseline=form).any()
        assert not reinforce(step_batch([1], [0], [1], [0]), group_baseline=form).any()
        assert not reinforce(step_batch([2, 1], [0, 0], np.zeros(3), [0, 0, 0])).any()


@given(batches(outcomes=(0.0, 0.4, 1.0)), st.floats(0, 1), st.booleans())
def test_it_equals_the_slow_version(batch, gamma, baseline):
    fast = reinforce(batch, gamma=gamma, group_baseline=baseline)
    slow = slow_reinforce_plus_plus(batch, gamma, baseline)
    np.testing.assert_allclose(fast, slow, rtol=1e-5, atol=1e-5)


def test_its_own_defaults_are_no_discount_and_a_kl_with_the_right_gradient():
    config = ReinforcePlusPlusConfig()
    assert (config.gamma, config.kl_kind) == (1.0, "k2")


def test_a_group_of_one_is_too_small_for_the_baseline_alone():
    plain = ReinforcePlusPlusConfig.parameters_class(group_size=1)
    assert plain.too_small_group() == ""
    baseline = plain.model_copy(update={"group_baseline": True})
    assert baseline.too_small_group().startswith("group_size is 1")
