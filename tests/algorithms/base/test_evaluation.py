"""Evaluation: tasks, random streams and counts."""

from collections import Counter
from types import SimpleNamespace

import pytest
from ray.rllib.utils.metrics.metrics_logger import MetricsLogger

from tests.toy import Rooms
from trca.algorithms import TRCAConfig
from trca.algorithms.base.evaluation import (
    Evaluation,
    evaluate_algorithm,
    evaluate_panel,
    local_runner,
)
from trca.algorithms.rollouts.batch import RolloutBatch
from trca.envs.panel import Panel
from trca.records import Rollout
from trca.records.rollout import Failure


def played(evaluation):
    """Tasks, indices and sampled tokens of an evaluation, in order."""
    return [
        (r.task_id, r.index, [tuple(s.response_ids.tolist()) for s in r.steps])
        for r in evaluation.rollouts
    ]


@pytest.fixture
def runner(make_config):
    made = local_runner(make_config(temperature=1.0, evaluation_temperature=1.0))
    yield made
    made.stop()


def test_every_task_is_played_as_often_as_asked_in_the_order_of_the_panel(runner):
    panel = runner.panel("valid").head(7)
    evaluation = evaluate_panel(runner, panel, rollouts=3)
    asked = [(task, index) for task in panel.task_ids for index in range(3)]
    assert [(r.task_id, r.index) for r in evaluation.rollouts] == asked
    assert {r.split for r in evaluation.rollouts} == {"valid"}
    assert (evaluation.summary()["n"], evaluation.summary()["missing_rollouts"]) == (21, 0)
    few_live = evaluate_panel(runner, panel, rollouts=3, live=2)
    assert played(few_live) == played(evaluation)


def test_rollouts_are_those_of_their_seed_alone(runner):
    panel = runner.panel("valid").head(5)
    first, again, other = (
        played(evaluate_panel(runner, panel, rollouts=2, seed=seed)) for seed in (3, 3, 4)
    )
    assert first == again
    assert sum(one == two for one, two in zip(first, other, strict=True)) < 5
    assert len({str(tokens) for _, _, tokens in first}) > 5


def test_evaluation_has_a_temperature_of_its_own(make_config):
    runner = local_runner(make_config(temperature=1.0, evaluation_temperature=0.0))
    panel = runner.panel("valid").head(4)

    def by_task(**settings):
        rollouts = played(evaluate_panel(runner, panel, rollouts=4, **settings))
        return {(task, str(tokens)) for task, _, tokens in rollouts}

    greedy = by_task()
    assert len(greedy) == 4
    assert by_task(temperature=0.0) == greedy
    assert len(by_task(temperature=1.0)) > 8
    runner.stop()


def cracked_rooms():
    """Rooms in which singing brings the roof down; every second rollout needs a second try."""
    tried = set()

    class Cracked(Rooms):
        def reset(self, *, seed=None, options=None):
            self.shaky = seed % 2 == 0 and seed not in tried
            tried.add(seed)
            return super().reset(seed=seed, options=options)

        def take_action(self, action):
            if self.shaky or action == "sing":
                raise OSError("the roof came down")
            return super().take_action(action)

    return Cracked


@pytest.mark.parametrize("policy", ["drop_group", "go_on"])
def test_every_finished_rollout_counts_whatever_becomes_of_groups_in_training(
    make_config, runner, policy
):
    panel = runner.panel("valid").head(12)
    healthy = evaluate_panel(runner, panel, rollouts=3)
    cracked = make_config(on_missing_rollout=policy, evaluation_temperature=1.0)
    cracked.environment(cracked_rooms())
    cracked_runner = local_runner(cracked)
    evaluation = evaluate_panel(cracked_runner, panel, rollouts=3)
    cracked_runner.stop()
    silent = [r for r in healthy.rollouts if all(s.action != "sing" for s in r.steps)]
    left = Counter(r.task_id for r in silent)
    assert {1, 2} & set(left.values())
    assert played(evaluation) == played(SimpleNamespace(rollouts=silent))
    summary = evaluation.summary()
    assert (summary["n"], summary["missing_rollouts"]) == (len(silent), 36 - len(silent))
    assert summary["success_rate"] == sum(r.won for r in silent) / len(silent)
    missing = {task: 3 - left[task] for task in panel.task_ids if left[task] < 3}
    assert {f.task_id: f.rollouts for f in evaluation.failures} == missing
    tries = Counter(incident.action for incident in evaluation.incidents)
    assert tries["retried"] > tries["dropped"] == 36 - len(silent)


def test_training_its_evaluations_and_reports_draw_from_separate_streams(
    build, make_config, cluster
):
    config = make_config(evaluation_interval=1, evaluation_rollouts=2, evaluation_temperature=1.0)
    config.debugging(seed=0)
    algorithm = build(config)
    runner = algorithm.env_runner_group.local_env_runner
    engine, seeds = runner.loop.engine, []
    submit = engine.submit

    def noted(request, sampling):
        seeds.append(request.seed)
        return submit(request, sampling)

    engine.submit = noted

    def drawn(sample):
        seeds.clear()
        sample()
        return set(seeds) - {0}  # the seed of the canary after each push of weights

    panel = algorithm.panel("valid").head(5)
    streams = [
        drawn(algorithm.training_step),
        drawn(algorithm.training_step),
        drawn(lambda: algorithm.evaluate()),
        *(drawn(lambda s=s: evaluate_panel(runner, panel, rollouts=2, seed=s)) for s in range(3)),
    ]
    assert all(len(each) > 10 for each in streams)
    assert len(set.union(*streams)) == sum(map(len, streams))

    chosen = played(algorithm.evaluation)
    assert played(evaluate_panel(runner, panel, rollouts=2, streams="evaluation")) == chosen
    fresh = played(evaluate_panel(runner, panel, rollouts=2))
    assert [key[:2] for key in fresh] == [key[:2] for key in chosen]
    assert sum(one == two for one, two in zip(fresh, chosen, strict=True)) < 5


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


@pytest.mark.parametrize(
    ("setting", "seconds"), [({}, 2e4), ({"evaluation_sample_timeout_s": 9.0}, 9)]
)
def test_evaluation_waits_as_long_as_training_does_unless_set(setting, seconds, monkeypatch):
    waited = []

    def sample_none(runners, groups, sampling, timeout_s):
        waited.append(timeout_s)
        return RolloutBatch(failures=[Failure(g.group, g.task_id, 1, "lost") for g in groups]), []

    monkeypatch.setattr("trca.algorithms.base.evaluation.sample_groups", sample_none)
    config = TRCAConfig().training(sample_timeout_s=2e4)
    config.evaluation(evaluation_split="test", **setting)
    algorithm = SimpleNamespace(
        config=config,
        evaluation_panel=Panel("Rooms", "test", ("a", "b")),
        env_runner_group=SimpleNamespace(_remote_config=config),
        metrics=MetricsLogger(),
    )
    evaluate_algorithm(algorithm, None)
    assert waited == [seconds]
    assert len(algorithm.evaluation.failures) == 2
