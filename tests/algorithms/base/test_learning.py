"""Complete training runs in this process: rollouts, credit, weights and success."""

import numpy as np
import pytest
import torch
from ray.rllib.core import DEFAULT_MODULE_ID

from tests.algorithms.learner.slow_objective import slow_scores
from trca.algorithms import GiGPOConfig, GRPOConfig, TRCAConfig, evaluate_panel
from trca.algorithms.rules.trca import TRCAParameters, trca
from trca.policies.models import load_model, load_tokenizer
from trca.policies.weights import import_weights
from trca.records import StepBatch, advantages_of

pytestmark = pytest.mark.usefixtures("cluster")

CATEGORIES = np.repeat(np.arange(3, dtype=np.int8), 5)
LEARNS = {
    "group_size": 8,
    "minibatch_size": 48,
    "micro_batch_tokens": 4096,
    "lr": 2e-3,
    "lr_warmup_updates": 8,
    "adam_betas": (0.9, 0.95),
    "entropy_coeff": 0.01,
}


@pytest.fixture(scope="module")
def history(make_config):
    """Three iterations at temperature 0.7 with settings that are nobody's defaults."""
    algorithm = make_config(
        TRCAConfig,
        env_config={"broken": ("train-3",)},
        tasks_per_iteration=6,
        temperature=0.7,
        gamma=0.5,
        lambda_=0.3,
        budgets={"evidence": 1.0, "invalidity": 2.0, "execution": 4.0},
        lr=5e-3,
    ).build_algo()
    iterations = []
    for _ in range(3):
        weights = algorithm.learner_group.get_weights()[DEFAULT_MODULE_ID]
        result = algorithm.train()
        iterations.append((weights, algorithm.rollouts, list(algorithm.failures), result))
    yield algorithm, iterations
    algorithm.stop()


def rollouts_of(history):
    return [rollout for _, rollouts, _, _ in history[1] for rollout in rollouts]


def test_the_context_of_a_step_is_that_of_the_state_before_its_action(history):
    for rollout in rollouts_of(history):
        for step in rollout.steps:
            room = int("room 1" in step.observation)
            assert step.context == f"room {room}"
            moved = step.action == "go"
            assert step.next_context == f"room {room ^ moved}"


def test_only_an_episode_that_the_environment_ended_in_success_is_one(history):
    ends = set()
    for rollout in rollouts_of(history):
        last = rollout.steps[-1]
        won = last.action == "take key" and "A key is here" in last.observation
        assert rollout.won == won == (not rollout.truncated)
        assert [s.reward for s in rollout.steps] == [0.0] * (len(rollout.steps) - 1) + [float(won)]
        ends.add(won)
    assert ends == {True, False}
    for _, rollouts, _, result in history[1]:
        assert result["success_rate"] == np.mean([r.steps[-1].reward for r in rollouts])


def test_a_lost_group_is_missing_with_its_reason_and_no_failure(history):
    lost = 0
    for _, rollouts, failures, result in history[1]:
        assert all(rollout.task_id != "train-3" for rollout in rollouts)
        assert all("the door of train-3 is stuck" in failure.reason for failure in failures)
        assert len(rollouts) == 24 - 4 * len(failures)
        assert result["missing_rollouts"] == 4 * len(failures)
        lost += len(failures)
    assert lost
    algorithm, _ = history
    evaluation = evaluate_panel(algorithm.env_runner_group, algorithm.panel("train").head(6))
    wins = [rollout.won for rollout in evaluation.rollouts]
    assert len(wins) == 5
    summary = evaluation.summary()
    assert (summary["n"], summary["missing_rollouts"]) == (5, 1)
    assert summary["success_rate"] == np.mean(wins)


def test_rollouts_that_break_half_way_are_missing_and_no_failures(build, make_config):
    """Of an odd task, only those are left that won in their first step."""
    odd = tuple(f"train-{k}" for k in range(1, 12, 2))
    settings = {"tasks_per_iteration": 6, "on_missing_rollout": "go_on"}
    algorithm = build(make_config(env_config={"leaking": odd}, **settings))
    result = algorithm.train()
    rollouts, failures = algorithm.rollouts, algorithm.failures
    short = [r for r in rollouts if r.task_id in odd]
    assert short
    assert all(r.won and len(r.steps) == 1 for r in short)
    assert all(r.won or r.truncated for r in rollouts)
    [reason] = {f.reason for f in failures}
    assert reason.startswith("RuntimeError: the roof is leaking (in Rooms, at toy.py:")
    assert result["missing_rollouts"] == 24 - len(rollouts) == sum(f.rollouts for f in failures)
    assert result["success_rate"] == np.mean([r.won for r in rollouts])


def test_rollouts_are_sampled_by_the_newest_weights_at_the_temperature_of_the_trainer(history):
    algorithm, iterations = history
    folder = algorithm.config.resolved_model()
    vocabulary, model = len(load_tokenizer(folder)), load_model(folder, "float32")
    for number, (weights, rollouts, _, result) in enumerate(iterations):
        import_weights(model, weights)
        assert {rollout.policy_version for rollout in rollouts} == {number}
        for step in rollouts[0].steps + rollouts[-1].steps:
            with torch.no_grad():
                scores, _ = slow_scores(model, step, 0.7, vocabulary)
            np.testing.assert_allclose(step.old_logprobs, scores.numpy(), atol=1e-4)
        assert result["mismatch_kl"] < 1e-6


def test_advantages_are_those_of_the_rule_under_the_settings_of_the_run(history):
    algorithm, iterations = history
    batch = StepBatch.from_rollouts(iterations[-1][1], CATEGORIES)
    budgets = {"evidence": 1.0, "invalidity": 2.0, "execution": 4.0}
    expected = trca(batch, TRCAParameters(gamma=0.5, lambda_=0.3, budgets=budgets))
    np.testing.assert_array_equal(advantages_of(algorithm.rollouts), expected)
    assert expected.any()


def test_rubric_rewards_of_steps_are_those_of_the_budgets_of_the_run(history):
    weights = np.repeat([1 / 5, -2 / 5, 4 / 5], 5)
    for rollout in rollouts_of(history):
        covered = np.zeros(15, dtype=bool)
        for step in rollout.steps:
            fired = step.judgments > 0
            assert step.foundational == pytest.approx(weights[fired].sum())
            fresh = fired & ~covered & (weights > 0)
            assert step.breakthrough == pytest.approx(weights[fresh].sum())
            covered |= fired


def test_the_rollouts_of_a_group_are_sampled_apart(history):
    for _, rollouts, _, _ in history[1]:
        for group in {r.group for r in rollouts}:
            texts = {
                tuple(s.response for s in rollout.steps)
                for rollout in rollouts
                if rollout.group == group
            }
            assert len(texts) > 1


@pytest.mark.parametrize(
    "config_class",
    [TRCAConfig, *(pytest.param(c, marks=pytest.mark.slow) for c in (GRPOConfig, GiGPOConfig))],
)
def test_success_rises_to_what_only_learning_reaches(build, make_config, config_class):
    """Actions at random win a third of the episodes."""
    algorithm = build(make_config(config_class, **LEARNS))

    def success():
        """The share of wins in eight episodes of each task."""
        panel, draws = algorithm.panel("train"), {"rollouts": 8, "temperature": 1.0}
        return evaluate_panel(algorithm.env_runner_group, panel, **draws).summary()["success_rate"]

    before = success()
    for _ in range(24):
        algorithm.train()
    after = success()
    assert before < 0.45
    assert after > 0.55
