from trca.algorithms.evaluation import Evaluation
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
