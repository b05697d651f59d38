"""Imitation learns a demonstrator, recorded rollouts, and labels of the policy's own states."""

from dataclasses import replace

import numpy as np
import pytest

from trca.algorithms import ImitationConfig
from trca.envs.responses import ResponseFormat, read_action
from trca.records import Rollout, to_json

pytestmark = pytest.mark.usefixtures("cluster")

LEARNS = {
    "lr": 5e-3,
    "minibatch_size": 16,
    "tasks_per_iteration": 8,
    "group_size": 4,
    "max_new_tokens": 16,
    "evaluation_temperature": 0.0,
}
SILENT = ResponseFormat(read_action, stop=(), write=lambda thought, action: thought)
"""Writes responses without the action."""


def run(config, iterations):
    """Trains; returns the last evaluation, the results, and the rollouts of each iteration."""
    algorithm = config.build_algo()
    try:
        results, rollouts = [], []
        for _ in range(iterations):
            results.append(algorithm.train())
            rollouts.append(algorithm.rollouts)
        algorithm.evaluate()
        return algorithm.evaluation.summary(), results, rollouts
    finally:
        algorithm.stop()


def refuses_to_train(config, message):
    """Fails unless the first iteration raises the error of its rollouts."""
    algorithm = config.build_algo()
    try:
        with pytest.raises(RuntimeError, match=message):
            algorithm.train()
    finally:
        algorithm.stop()


def test_a_policy_learns_the_demonstrator(make_config):
    evaluation, results, rollouts = run(make_config(ImitationConfig, **LEARNS), 12)
    for rollout in rollouts[0]:
        assert rollout.won
        for step in rollout.steps:
            assert step.response == step.demonstration
            assert step.action in step.demonstration
            assert np.isnan(step.old_logprobs).all()
    assert results[-1]["policy"] < 0.2 * results[0]["policy"]
    assert results[0]["teacher"]["success_rate"] == 1.0
    assert "success_rate" not in results[0], "the success of the demonstrator is not the policy's"
    assert evaluation["success_rate"] == 1.0
    assert evaluation["parsed_ratio"] == 1.0


def test_randomness_gives_random_actions_and_the_seed_repeats_them(make_config):
    settings = {**LEARNS, "demonstrator_randomness": 0.5, "deliberate_actions": ("sing",)}
    runs = [run(make_config(ImitationConfig, **settings), 1)[2][0] for _ in range(2)]
    assert [to_json(rollout) for rollout in runs[0]] == [to_json(rollout) for rollout in runs[1]]
    actions = [step.action for rollout in runs[0] for step in rollout.steps]
    assert {"go", "take key", "knock"} <= set(actions)
    assert "sing" not in actions


@pytest.mark.slow
def test_the_policy_acts_and_learns_the_labels_of_its_own_states(make_config):
    config = make_config(ImitationConfig, **LEARNS, demonstrations="on_policy")
    evaluation, results, rollouts = run(config, 8)
    assert results[0]["success_rate"] < results[-1]["success_rate"]
    steps = [step for rollout in rollouts[0] for step in rollout.steps]
    assert any(step.response != step.demonstration for step in steps)
    for step in steps:
        label = "take key" if "room 1" in step.observation else "go"
        assert step.demonstration == f"<think>ok</think><action>{label}</action>"
        assert np.isfinite(step.old_logprobs).all()
    assert evaluation["success_rate"] == 1.0


def test_recorded_rollouts_are_replayed_and_failures_left_out(make_config, tmp_path):
    teacher = make_config(ImitationConfig, **LEARNS, demonstrator_randomness=0.5)
    _, _, ((*recorded,),) = run(teacher, 1)
    path = tmp_path / "rollouts.jsonl"
    path.write_text("".join(f"{to_json(rollout)}\n" for rollout in recorded))
    won = [rollout for rollout in recorded if rollout.won]
    assert 0 < len(won) < len(recorded)
    settings = {**LEARNS, "demonstrations": "recorded", "recorded_rollouts": str(path)}
    _, _, rollouts = run(make_config(ImitationConfig, **settings), 2)

    def played(batch):
        return [(r.task_id, *(step.response for step in r.steps)) for r in batch]

    assert set(played(rollouts[0] + rollouts[1])) <= set(played(won))
    assert len(rollouts[0]) == LEARNS["tasks_per_iteration"]


def test_a_recording_of_another_environment_is_a_missing_rollout(make_config, tmp_path):
    _, _, ((first, *_),) = run(make_config(ImitationConfig, **LEARNS), 1)
    first.steps[0] = replace(first.steps[0], observation="You are in a garden.")
    path = tmp_path / "rollouts.jsonl"
    path.write_text(f"{to_json(first)}\n")
    settings = {**LEARNS, "demonstrations": "recorded", "recorded_rollouts": str(path)}
    refuses_to_train(
        make_config(ImitationConfig, **settings, max_failed_iterations=1),
        "environment shows another observation",
    )


def test_recorded_demonstrations_need_a_file_of_successes(make_config, tmp_path):
    with pytest.raises(ValueError, match="belong together"):
        make_config(ImitationConfig, demonstrations="recorded").build_algo()
    settings = {"demonstrations": "recorded", "recorded_rollouts": str(tmp_path / "none.jsonl")}
    with pytest.raises(ValueError, match=r"recorded_rollouts is '.*none.jsonl': No such file"):
        make_config(ImitationConfig, **settings).build_algo()
    of_team = replace(Rollout("1", "train", "", 0, 0, 0), agent_id="planner", won=True)
    for text, problem in (
        (b"\x1f\x8b\x00", "line 1: 'utf-8' codec"),
        (to_json(of_team).encode(), "rollouts of a team: planner"),
    ):
        (tmp_path / "other.jsonl").write_bytes(text)
        settings["recorded_rollouts"] = str(tmp_path / "other.jsonl")
        with pytest.raises(ValueError, match=rf"other\.jsonl.*{problem}"):
            make_config(ImitationConfig, **settings).build_algo()
    (tmp_path / "empty.jsonl").write_text("")
    settings = {"demonstrations": "recorded", "recorded_rollouts": str(tmp_path / "empty.jsonl")}
    with pytest.raises(ValueError, match="no successful rollout"):
        make_config(ImitationConfig, **settings).build_algo()


@pytest.mark.parametrize(
    ("name", "value"),
    [("policy_loss", "clipped"), ("recompute_logprobs", True), ("replay_size", 8)],
)
def test_settings_that_need_a_sampler_are_refused(make_config, name, value):
    with pytest.raises(ValueError, match=f"{name} is {value}, and needs responses that the policy"):
        make_config(ImitationConfig, **{name: value}).build_algo()


@pytest.mark.parametrize(
    ("name", "value"),
    [("demonstrator_randomness", 0.3), ("deliberate_actions", ["buy"]), ("task_curriculum", 1.0)],
)
def test_settings_without_effect_on_recordings_are_refused(make_config, name, value):
    settings = {"demonstrations": "recorded", "recorded_rollouts": "rollouts.jsonl", name: value}
    with pytest.raises(ValueError, match=f"{name} has no effect on recorded rollouts"):
        make_config(ImitationConfig, **settings).validate()


@pytest.mark.parametrize("source", ["demonstrator", "on_policy"])
def test_a_format_that_cannot_read_a_demonstration_is_named(make_config, source):
    settings = {**LEARNS, "demonstrations": source, "response_format": f"{__name__}:SILENT"}
    refuses_to_train(
        make_config(ImitationConfig, **settings, max_failed_iterations=1),
        "reads no action 'go' in the demonstrated response",
    )
