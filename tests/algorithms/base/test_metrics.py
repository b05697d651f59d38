import math
import warnings

import numpy as np
import pytest

from trca.algorithms.base.metrics import credit_metrics, means, rollout_metrics
from trca.records import Rollout, StepBatch
from trca.rubric import Budgets


def rollout(won, **measures):
    return Rollout("t", "train", "Any", 0, 0, 0, won=won, score=0.5 * won, measures=measures)


def test_a_measure_is_the_mean_of_the_rollouts_that_have_it():
    metrics = rollout_metrics([rollout(True, f1=1.0), rollout(False, f1=0.5), rollout(False)])
    assert metrics["success_rate"] == pytest.approx(1 / 3)
    assert metrics["score"] == pytest.approx(1 / 6)
    assert metrics["measures"] == {"f1": 0.75}


def test_nothing_is_measured_where_there_is_no_rollout():
    metrics = rollout_metrics([])
    assert "measures" not in metrics
    assert all(math.isnan(value) for value in metrics.values())


def test_the_mean_over_policies_leaves_out_a_policy_without_a_value():
    one, other = {"entropy": math.nan, "lr": 1.0}, {"entropy": 2.0, "lr": 3.0}
    assert means([one, other]) == {"entropy": 2.0, "lr": 2.0}
    assert math.isnan(means([one, one])["entropy"])


def test_a_role_without_a_turn_has_no_rates():
    batch = StepBatch.from_rollouts([], np.zeros(1, np.int8))
    with warnings.catch_warnings(action="error"):
        metrics = credit_metrics([], batch, Budgets.of(None), ["seen"])
    assert math.isnan(metrics["operators"]["seen"])
