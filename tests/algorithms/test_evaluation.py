from types import SimpleNamespace

import pytest
from ray.rllib.utils.metrics.metrics_logger import MetricsLogger

from trca.algorithms import TRCAConfig
from trca.algorithms.evaluation import Evaluation, evaluate_algorithm
from trca.algorithms.records import Rollout
from trca.algorithms.rollout import Failure
from trca.envs.panel import Panel


def test_a_summary_counts_finished_rollouts_by_type_and_names_the_missing():
    rollouts = [
        Rollout("a", "test", kind, 0, index, 0, won=won)
        for index, (kind, won) in enumerate([("Heat", True), ("Heat", False), ("Cool", True)])
    ]
    failures = [Failure(1, "b", 2, "the door is stuck")]
    summary = Evaluation(Panel("Rooms", "test", ("a", "b")), rollouts, failures).summary()
    assert (summary["n"], summary["missing_rollouts"]) == (3, 2)
    assert summary["success_rate"] == 2 / 3
    assert summary["task_types"] == {
        "Cool": {"success_rate": 1.0, "n": 1},
        "Heat": {"success_rate": 0.5, "n": 2},
    }


class Runners:
    """One remote runner, which dies; notes how long it was waited for."""

    def __init__(self, config):
        self._remote_config, self.waited, self.alive = config, 0.0, [1]
        self._worker_manager = SimpleNamespace(actors=dict)

    def num_remote_env_runners(self):
        return 1

    def healthy_env_runner_ids(self):
        return self.alive

    def foreach_env_runner(self, calls, timeout_seconds, **kwargs):
        self.waited, self.alive = timeout_seconds, []
        return []


@pytest.mark.parametrize(("own", "seconds"), [({}, 2e4), ({"evaluation_sample_timeout_s": 9.0}, 9)])
def test_evaluation_waits_as_long_as_training_does_unless_told(own, seconds):
    config = TRCAConfig().training(sample_timeout_s=2e4)
    config.evaluation(evaluation_split="test", **own)
    runners = Runners(config)
    algorithm = SimpleNamespace(
        config=config,
        panel=lambda split: Panel("Rooms", split, ("a", "b")),
        env_runner_group=runners,
        metrics=MetricsLogger(),
    )
    evaluate_algorithm(algorithm, None)
    assert runners.waited == seconds
    assert len(algorithm.evaluation.failures) == 2
