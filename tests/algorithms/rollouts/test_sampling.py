"""Sampling on several runners: no missing group, complete groups, no step beyond the age limit."""

import os
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import ray
from ray.rllib.utils.actor_manager import FaultTolerantActorManager
from ray.tune.registry import register_env

from tests.algorithms.base.test_training import wait_until_alive
from tests.toy import Rooms
from trca.algorithms.rollouts.batch import GroupRequest, RolloutBatch
from trca.algorithms.rollouts.sampling import LOST, sample_groups
from trca.envs import make
from trca.policies.engines.engine import SamplingParams
from trca.records import Rollout
from trca.records.rollout import Failure

GROUPS = [GroupRequest(k, f"task-{k}", "train", 2, ("training", 0)) for k in range(3)]
ITERATIONS = 16


class Runner:
    """A remote runner, which may die or sleep instead of sampling."""

    def __init__(self, fault):
        self.fault = fault

    def apply(self, call):
        return call(self)

    def sample(self, *, groups, sampling):
        if self.fault == "dies":
            os._exit(1)
        if self.fault == "sleeps":
            time.sleep(600)
        batch = RolloutBatch()
        for group in reversed(groups):
            batch.rollouts += [
                Rollout(group.task_id, "train", "Any", group.group, index, 0) for index in (1, 0)
            ]
        batch.seconds["generation"] = 2.0
        return batch

    def get_metrics(self):
        return {"steps": 4}


class Runners:
    """Remote runners with these faults."""

    local_env_runner = None
    _ignore_ray_errors_on_env_runners = True
    _num_env_runners_dropped_lifetime = 0
    _remote_config = SimpleNamespace(run_folder=None, in_evaluation=False)

    def __init__(self, *faults):
        actors = [ray.remote(num_cpus=0)(Runner).remote(fault) for fault in faults]
        ray.get([actor.apply.remote(type) for actor in actors])  # all have started
        self._worker_manager = FaultTolerantActorManager(actors, init_id=1)
        self.num_remote_env_runners = self._worker_manager.num_actors
        self.healthy_env_runner_ids = self._worker_manager.healthy_actor_ids
        self.num_healthy_remote_workers = self._worker_manager.num_healthy_actors


@pytest.mark.slow
def test_the_groups_of_lost_and_slow_runners_are_sampled_on_the_others(cluster):
    runners = Runners("", "dies", "sleeps")
    batch, metrics = sample_groups(runners, GROUPS, SamplingParams(), 15.0)
    assert [(r.group, r.index) for r in batch.rollouts] == [
        (g, k) for g in range(3) for k in (0, 1)
    ]
    assert batch.failures == []
    assert [(i.kind, i.which, i.reason, i.action) for i in batch.incidents] == [
        ("env runner", "2", LOST, "retried"),
        ("env runner", "3", LOST, "retried"),
    ]
    assert batch.seconds["generation"] == 2.0
    assert metrics == [{"steps": 4}] * 3


def test_groups_are_missing_where_no_runner_is_left(cluster, tmp_path, caplog):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "env_runner_1.err").write_text("CUDA error: out of memory\n")
    (tmp_path / "logs" / "evaluation_runner_1.err").write_text("Killed\n")
    runners = Runners("dies")
    runners._ignore_ray_errors_on_env_runners = False
    with pytest.raises(ray.exceptions.RayActorError):
        sample_groups(runners, GROUPS, SamplingParams(), None)
    runners._ignore_ray_errors_on_env_runners = True
    for in_evaluation, words in ((False, "CUDA error: out of memory"), (True, "Killed")):
        caplog.clear()
        runners._remote_config = SimpleNamespace(run_folder=tmp_path, in_evaluation=in_evaluation)
        runners._worker_manager.set_actor_state(1, healthy=True)
        batch, _ = sample_groups(runners, GROUPS[:1], SamplingParams(), None)
        assert batch.failures == [Failure(0, "task-0", 2, LOST)]
        tries = [(i.which, i.action) for i in batch.incidents]
        assert tries == [("1", "retried"), ("all", "dropped")]
        assert f"last lines of env runner 1:\n{words}" in caplog.text


class GatedRooms(Rooms):
    """Opens and waits at gates, as files in a folder say, before the start of a task."""

    def __init__(self, gates, **kwargs):
        super().__init__(**kwargs)
        self._gates = Path(gates)

    def start_task(self, task_id, options):
        place = f"{round(options['progress'] * ITERATIONS)}-{task_id}"
        opens, waits = self._gates / f"{place}-opens", self._gates / f"{place}-waits"
        if opens.exists():
            gate = opens.read_text()
            opens.unlink()
            Path(gate).write_text("open")
        if waits.exists():
            waits.read_text()
            waits.unlink()
        return super().start_task(task_id, options)


def make_gated_rooms(config):
    return make(GatedRooms, **config)


@pytest.fixture(scope="module")
def ahead(cluster, make_config, tmp_path_factory):
    """Two runners, two groups an iteration, two iterations ahead; a folder of gates, and poison."""
    gates, poison = tmp_path_factory.mktemp("gates"), tmp_path_factory.mktemp("poison")
    register_env("GatedRooms", make_gated_rooms)
    config = make_config(
        num_env_runners=2,
        max_staleness=2,
        tasks_per_iteration=2,
        iterations=ITERATIONS,
        recompute_logprobs=True,
    )
    config.environment("GatedRooms", env_config={"gates": str(gates), "poison": str(poison)})
    algorithm = config.build_algo()
    yield algorithm, gates, poison
    algorithm.stop()


def tasks_of(algorithm):
    """The tasks of each iteration."""
    return [algorithm.panel("train").batch(k, 2, 7) for k in range(ITERATIONS)]


@pytest.mark.slow
def test_steps_are_as_old_as_allowed_however_long_a_runner_takes(ahead):
    """A runner continues while the second starts, then holds a later group for two updates."""
    algorithm, gates, _ = ahead
    tasks = tasks_of(algorithm)

    def gate(iteration, group):
        return gates / f"{iteration}-{tasks[iteration][group]}-waits"

    def opens(iteration, group, target):
        (gates / f"{iteration}-{tasks[iteration][group]}-opens").write_text(str(target))

    os.mkfifo(gate(0, 1))
    os.mkfifo(gate(2, 0))
    opens(2, 0, gate(0, 1))
    opens(4, 0, gate(2, 0))
    os.mkfifo(gate(4, 0))  # the runner that started early plays the last group
    opens(4, 1, gate(4, 0))
    ages = []
    for number in range(5):
        result = algorithm.train()
        assert result["missing_rollouts"] == 0
        rollouts = algorithm.rollouts
        assert [(r.group, r.index) for r in rollouts] == [
            (g, k) for g in range(2) for k in range(4)
        ]
        assert tuple(r.task_id for r in rollouts[::4]) == tuple(tasks[number])
        assert result["staleness"] <= result["staleness_max"]
        ages.append(result["staleness_max"])
    assert not list(gates.iterdir())
    assert ages[:3] == [0, 1, 2]
    assert max(ages) == 2


@pytest.mark.slow
def test_a_restored_algorithm_samples_with_the_restored_weights_from_there_on(ahead, tmp_path):
    algorithm, _, _ = ahead
    algorithm.train()
    path = algorithm.save_to_path(tmp_path / "checkpoint")
    for _ in range(2):  # at the iteration of the checkpoint, and one after it
        algorithm.restore_from_path(path)
        result = algorithm.train()
        assert result["missing_rollouts"] == 0
        assert result["staleness_max"] == 0


@pytest.mark.slow
def test_an_idle_runner_starts_no_group_that_would_be_too_old(ahead, tmp_path):
    """A runner plays all groups that may start, until the second, late runner is idle.

    The late runner ends the first iteration. A third iteration ahead would start at this moment and
    train on steps that are three updates old.
    """
    algorithm, gates, _ = ahead
    algorithm.restore_from_path(algorithm.save_to_path(tmp_path / "checkpoint"))  # nothing is ahead
    algorithm.env_runner_group.foreach_env_runner(lambda runner: None)  # after the running calls
    first, tasks = algorithm.training_steps, tasks_of(algorithm)
    gate = gates / f"{first}-{tasks[first][1]}-waits"
    os.mkfifo(gate)
    (gates / f"{first + 2}-{tasks[first + 2][1]}-opens").write_text(str(gate))
    ages = [algorithm.train()["staleness_max"] for _ in range(4)]
    assert not list(gates.iterdir())
    assert ages == [0, 1, 2, 2]


@pytest.mark.slow
def test_groups_of_a_lost_runner_are_sampled_again_and_missing_where_none_is_left(ahead):
    algorithm, _, poison = ahead
    (poison / "dose").touch()
    missing, incidents = 0, []
    while not incidents:
        missing += algorithm.train()["missing_rollouts"]
        incidents += algorithm.incidents
    assert missing == 0
    (incident,) = incidents
    assert (incident.kind, incident.action) == ("env runner", "retried")

    manager = algorithm.env_runner_group._worker_manager
    wait_until_alive(manager.actors()[int(incident.which)])
    algorithm.train()
    assert manager.num_healthy_actors() == 2
    (poison / "first").touch()
    (poison / "second").touch()
    lost = 0
    for _ in range(4):
        missing = algorithm.train()["missing_rollouts"]
        dropped = [i.reason for i in algorithm.incidents if i.action == "dropped"]
        assert bool(missing) == bool(dropped)
        lost += missing > 0
    assert not list(poison.iterdir())
    assert lost <= 1
    assert missing == 0


def test_sampling_ahead_needs_processes_of_its_own(make_config):
    with pytest.raises(ValueError, match="set num_env_runners to 1 or more"):
        make_config(num_env_runners=0, max_staleness=1).validate()
