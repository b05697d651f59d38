"""Training with the template ``chat``: sampled ids stand in the later prompts and are trained."""

from __future__ import annotations

import pytest

from tests.chats import THINKING, qwen3_tokenizer, save_chat_model, smollm2_tokenizer
from trca.algorithms.base.evaluation import evaluate_panel, local_runner

CHAT = {
    "template": "chat",
    "history_length": 50,
    "max_prompt_tokens": 2000,
    "max_new_tokens": 6,
    "tasks_per_iteration": 1,
    "group_size": 2,
    "micro_batch_tokens": 8192,
    "lr": 1e-5,
}
TEAM = """
roles:
  planner: {speaks: true}
  executor: {acts: [all], sees: [task, observation, memory, admissible, messages], turn: 2}
"""


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize("kind", ["qwen3", "smollm2"])
def test_what_was_sampled_is_prompted_again_and_trained(build, make_config, tmp_path, kind):
    tokenizer = qwen3_tokenizer() if kind == "qwen3" else smollm2_tokenizer()
    folder = save_chat_model(tmp_path / "model", tokenizer)
    algorithm = build(make_config(model=str(folder), **CHAT))
    result = algorithm.train()
    rollouts = algorithm.rollouts
    assert result["missing_rollouts"] == 0
    assert abs(result["mismatch_kl"]) < 1e-9
    assert [len(rollout.steps) for rollout in rollouts] == [4, 4]
    assert all(continues(rollout, tokenizer) for rollout in rollouts)
    changed = [
        tokenizer(tokenizer.decode(step.response_ids), add_special_tokens=False)["input_ids"]
        != step.response_ids.tolist()
        for rollout in rollouts
        for step in rollout.steps
    ]
    assert any(changed), "every response survives decoding: the test shows nothing"


def test_each_agent_of_a_team_has_a_conversation(make_config, tmp_path):
    tokenizer = qwen3_tokenizer()
    folder = save_chat_model(tmp_path / "model", tokenizer)
    (tmp_path / "team.yaml").write_text(TEAM)
    env_config = {"team": str(tmp_path / "team.yaml")}
    runner = local_runner(make_config(env_config=env_config, model=str(folder), **CHAT))
    rollouts = evaluate_panel(runner, runner.panel("train").head(2), temperature=1.0).rollouts
    runner.stop()
    assert {rollout.agent_id for rollout in rollouts} == {"planner", "executor"}
    assert max(len(rollout.steps) for rollout in rollouts) > 2
    assert all(continues(rollout, tokenizer) for rollout in rollouts)


def continues(rollout, tokenizer):
    """Whether each prompt is the last prompt, its sampled ids, and the new observation."""
    for step, after in zip(rollout.steps, rollout.steps[1:], strict=False):
        past = [*step.prompt_ids.tolist(), *step.response_ids.tolist()]
        turn = after.prompt_ids[len(past) :]
        if after.prompt_ids[: len(past)].tolist() != past:
            return False
        if after.observation not in tokenizer.decode(turn):
            return False
    return True


def test_a_chat_needs_a_chat_template(make_config, tmp_path):
    with pytest.raises(ValueError, match="tokenizer of the model has no chat template"):
        make_config(template="chat").validate()
    with pytest.raises(ValueError, match="chat_template_kwargs is set"):
        make_config(chat_template_kwargs={"enable_thinking": False}).validate()
    folder = save_chat_model(tmp_path, qwen3_tokenizer(THINKING))
    with pytest.raises(ValueError, match="has 'thinking', and the chat template"):
        make_config(model=str(folder), chat_template_kwargs={"thinking": False}).validate()
    make_config(
        model=str(folder), template="chat", chat_template_kwargs={"enable_thinking": False}
    ).validate()
