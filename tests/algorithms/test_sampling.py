from trca.algorithms.records import Rollout
from trca.algorithms.rollout import Failure, GroupRequest, RolloutBatch
from trca.algorithms.sampling import LOST, sample_groups
from trca.policies.engines.engine import SamplingParams

GROUPS = [GroupRequest(k, f"task-{k}", "train", 2, ("training", 0)) for k in range(3)]


class Runners:
    """Two remote runners; the second is lost."""

    local_env_runner = None

    def num_remote_env_runners(self):
        return 2

    def healthy_env_runner_ids(self):
        return [1, 2]

    def foreach_env_runner(self, calls, **kwargs):
        return [calls[0](Runner(2.0))]


class Runner:
    def __init__(self, seconds):
        self.seconds = seconds

    def sample(self, *, groups, sampling):
        batch = RolloutBatch()
        for group in reversed(groups):
            batch.rollouts += [
                Rollout(group.task_id, "train", "Any", group.group, index, 0) for index in (1, 0)
            ]
        batch.seconds["generation"] = self.seconds
        return batch

    def get_metrics(self):
        return {"steps": 4}


def test_a_lost_runner_costs_its_own_groups_alone():
    batch, metrics = sample_groups(Runners(), GROUPS, SamplingParams(), 1.0)
    assert [(r.group, r.index) for r in batch.rollouts] == [(0, 0), (0, 1), (2, 0), (2, 1)]
    assert batch.failures == [Failure(1, "task-1", 2, LOST)]
    assert batch.seconds["generation"] == 2.0
    assert metrics == [{"steps": 4}]
