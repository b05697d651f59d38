"""Recorded rollouts with a second rule: signs, ranks and operators of a hand-computed case."""

import dataclasses
from math import isnan, sqrt

import numpy as np
import pytest

from trca.analysis.recredit import Recredited, change


def by_hand():
    """Two groups of three steps; the second rule gives the second group zero advantages."""
    return Recredited(
        before=np.array([1.0, -1.0, 0.0, 2.0, -2.0, -4.0]),
        after=np.array([3.0, 0.5, -1.0, 0.0, 0.0, 0.0]),
        group=np.array([0, 0, 0, 1, 1, 1]),
        won=np.array([True, False, False, True, False, False]),
        judgments=np.array([[1, 0, 0], [1, 0, 0], [0, 0, 0], [0, 0, 0], [0, 1, 0], [0, 1, 0]]),
    )


def test_a_case_made_by_hand():
    differences = change(by_hand(), 4, ["a", "b", "c"])
    assert (differences.rollouts, differences.steps, differences.groups) == (4, 6, 2)
    assert np.allclose(np.array(differences.signs) * 6, [[0, 2, 1], [1, 0, 0], [0, 1, 1]])
    before, after = differences.before, differences.after
    assert (before.steps, after.steps) == pytest.approx((5 / 6, 1 / 2))
    assert (before.groups, after.groups) == (1.0, 0.5)
    assert (before.positive, after.positive) == pytest.approx((1 / 3, 1 / 3))
    assert (before.positive_in_lost, after.positive_in_lost) == (0.0, 0.25)
    assert (before.negative_in_won, after.negative_in_won) == (0.0, 0.0)
    assert (before.magnitude, after.magnitude) == pytest.approx((10 / 6, 4.5 / 6))
    assert before.spread == pytest.approx((sqrt(2 / 3) + sqrt(56 / 9)) / 2)
    # Ranks 5 3 4 6 2 1 and 6 5 1 3 3 3; in the first group 3 1 2 and 3 2 1, in the second no rank.
    assert differences.rank_correlation == pytest.approx(2.5 / sqrt(17.5 * 15.5))
    assert differences.rank_correlation_in_groups == pytest.approx(0.5)
    a, b, c = differences.operators
    assert (a.operator, a.steps, a.before, a.after, a.flipped) == ("a", 2, 0.0, 1.75, 0.5)
    assert (b.steps, b.before, b.after, b.flipped) == (2, -3.0, 0.0, 1.0)
    assert c.steps == 0
    assert isnan(c.before)


def test_a_rule_without_advantages_has_no_rank_correlation():
    differences = change(dataclasses.replace(by_hand(), after=np.zeros(6)), 4, ["a", "b", "c"])
    assert isnan(differences.rank_correlation)
    assert isnan(differences.rank_correlation_in_groups)
    assert (differences.after.steps, differences.after.groups) == (0.0, 0.0)
