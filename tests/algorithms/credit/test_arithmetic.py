"""Discounted returns, codes and normalisation, against the definitions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.algorithms.credit.slow_rules import slow_normalize, slow_returns
from trca.algorithms.credit.arithmetic import discounted_returns, joint_codes, normalize

numbers = st.floats(-100, 100)


@given(
    st.lists(st.lists(numbers, min_size=1, max_size=20), min_size=1, max_size=6), st.floats(0, 1)
)
def test_returns_are_the_discounted_sums_of_their_own_rollout(rollouts, gamma):
    values = np.concatenate(rollouts)
    rollout = np.repeat(np.arange(len(rollouts)) * 7, [len(r) for r in rollouts])
    expected = slow_returns(values, rollout, gamma)
    np.testing.assert_allclose(
        discounted_returns(values, rollout, gamma), expected, rtol=1e-12, atol=1e-9
    )


def test_a_rollout_of_a_hundred_thousand_steps_is_no_special_case():
    returns = discounted_returns(np.ones(100_000), np.zeros(100_000, dtype=np.int64), 0.5)
    np.testing.assert_allclose(returns[:-60], 2.0)


@pytest.mark.parametrize("gamma", [-0.1, 1.1, float("nan")])
def test_a_discount_out_of_range_is_refused(gamma):
    with pytest.raises(ValueError, match="gamma is"):
        discounted_returns(np.ones(2), np.zeros(2, dtype=np.int64), gamma)


keys = st.sampled_from([0, 1, 2, -(10**15), 10**15])


@given(st.lists(st.tuples(keys, keys), max_size=30))
def test_joint_codes_are_equal_exactly_when_all_keys_are(pairs):
    columns = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    codes = joint_codes(*columns)
    assert set(codes.tolist()) == set(range(len(set(pairs))))
    assert len(set(zip(codes.tolist(), pairs, strict=True))) == len(set(pairs))


@given(st.data(), st.integers(0, 1), st.booleans())
def test_normalization_is_that_of_each_group_alone(data, ddof, divide):
    values = np.array(data.draw(st.lists(st.integers(-8, 8), min_size=1, max_size=30))) / 4
    codes = np.array(
        data.draw(st.lists(st.integers(0, 4), min_size=len(values), max_size=len(values)))
    )
    np.testing.assert_allclose(
        normalize(values, codes, ddof=ddof, epsilon=1e-6, divide=divide),
        slow_normalize(values, codes, ddof, divide),
        rtol=1e-9,
        atol=1e-12,
    )


@given(numbers, st.integers(1, 50))
def test_equal_values_get_exactly_zero_though_their_mean_is_rounded(value, count):
    values, codes = np.full(count, value), np.zeros(count, dtype=np.int64)
    for divide in (True, False):
        result = normalize(values, codes, ddof=0, epsilon=1e-6, divide=divide)
        assert not result.any()


def test_values_that_differ_in_the_last_bits_count_as_equal():
    values = np.array([0.1 + 0.2, 0.3, 0.3])
    assert values.std() > 0
    codes = np.zeros(3, dtype=np.int64)
    assert not normalize(values, codes, ddof=0, epsilon=1e-6).any()


def test_without_epsilon_a_group_of_equal_values_is_still_zero():
    result = normalize(np.array([2.0, 2.0, 5.0]), np.array([0, 0, 1]), ddof=1, epsilon=0.0)
    assert not result.any()
