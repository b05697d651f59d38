from types import SimpleNamespace

from trca.algorithms.rollouts.batch import GroupRequest, RolloutBatch
from trca.algorithms.rollouts.sampling import LOST, sample_groups
from trca.policies.engines.engine import SamplingParams
from trca.records import Rollout
from trca.records.failures import Failure

GROUPS = [GroupRequest(k, f"task-{k}", "train", 2, ("training", 0)) for k in range(3)]


class Runners:
    """Two remote runners; the second dies in its first call."""

    local_env_runner = None
    _remote_config = SimpleNamespace(run_folder=None, in_evaluation=False)

    def __init__(self):
        self.alive = [1, 2]
        self._worker_manager = SimpleNamespace(actors=dict)

    def num_remote_env_runners(self):
        return 2

    def healthy_env_runner_ids(self):
        return self.alive

    def foreach_env_runner(self, calls, remote_worker_ids, **kwargs):
        self.alive = [1]
        pairs = zip(remote_worker_ids, calls, strict=True)
        return [call(Runner(2.0)) for number, call in pairs if number == 1]


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


def test_the_groups_of_a_lost_runner_are_sampled_on_the_others():
    batch, metrics = sample_groups(Runners(), GROUPS, SamplingParams(), 1.0)
    assert [(r.group, r.index) for r in batch.rollouts] == [
        (g, k) for g in range(3) for k in (0, 1)
    ]
    assert batch.failures == []
    assert [(i.kind, i.which, i.reason, i.action) for i in batch.incidents] == [
        ("env runner", "2", LOST, "retried")
    ]
    assert batch.seconds["generation"] == 2.0
    assert metrics == [{"steps": 4}] * 2


def test_groups_are_missing_where_no_runner_is_left():
    runners = Runners()
    runners.alive = [2]
    batch, _ = sample_groups(runners, GROUPS[:1], SamplingParams(), 1.0)
    assert batch.failures == [Failure(0, "task-0", 2, LOST)]
    assert [i.action for i in batch.incidents] == ["dropped"]


def test_the_log_has_the_last_lines_of_a_lost_runner(tmp_path, caplog):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "env_runner_2.err").write_text("CUDA error: out of memory\n")
    (tmp_path / "logs" / "evaluation_runner_2.err").write_text("Killed\n")
    for in_evaluation, words in ((False, "CUDA error: out of memory"), (True, "Killed")):
        runners = Runners()
        runners._remote_config = SimpleNamespace(run_folder=tmp_path, in_evaluation=in_evaluation)
        sample_groups(runners, GROUPS, SamplingParams(), 1.0)
        assert f"last lines of env runner 2:\n{words}" in caplog.text
