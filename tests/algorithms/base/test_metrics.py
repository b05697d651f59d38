import math

import pytest

from trca.algorithms.base.metrics import rollout_metrics
from trca.records import Rollout


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
