"""Training with the template ``chat``: sampled ids stand in the later prompts and are trained."""

from __future__ import annotations

import numpy as np
import pytest

from tests.chats import THINKING, qwen3_tokenizer, save_chat_model, smollm2_tokenizer

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


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize("kind", ["qwen3", "smollm2"])
def test_what_was_sampled_is_prompted_again_and_trained(make_config, tmp_path, kind):
    tokenizer = qwen3_tokenizer() if kind == "qwen3" else smollm2_tokenizer()
    folder = save_chat_model(tmp_path / "model", tokenizer)
    algorithm = make_config(model=str(folder), **CHAT).build_algo()
    result = algorithm.train()
    rollouts = algorithm.rollouts
    algorithm.stop()
    assert result["missing_rollouts"] == 0
    assert abs(result["mismatch_kl"]) < 1e-9
    retokenised = 0
    for rollout in rollouts:
        assert len(rollout.steps) == 4
        for step, after in zip(rollout.steps, rollout.steps[1:], strict=False):
            past = np.concatenate([step.prompt_ids, step.response_ids])
            assert after.prompt_ids[: len(past)].tolist() == past.tolist()
            again = tokenizer(tokenizer.decode(step.response_ids), add_special_tokens=False)
            retokenised += again["input_ids"] != step.response_ids.tolist()
            assert after.observation in tokenizer.decode(after.prompt_ids[len(past) :])
    assert retokenised, "the responses would survive decoding, so that the test shows nothing"


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
