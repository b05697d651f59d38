"""Rollouts of an environment with tools: calls are played, recorded, credited and learned."""

from pathlib import Path

import pytest

from tests.chats import qwen3_tokenizer, save_chat_model, tool_tokenizer
from trca.algorithms import TRCAConfig
from trca.algorithms.imitation import ImitationConfig
from trca.envs.tool_calls import read_calls

DESK = f"{Path(__file__).parents[3]}/examples/refunds/desk.py:RefundDesk"
CHAT = {
    "template": "chat",
    "response_format": "tool_calls",
    "history_length": 50,
    "max_prompt_tokens": 3000,
    "max_new_tokens": 6,
    "tasks_per_iteration": 2,
    "group_size": 1,
    "micro_batch_tokens": 8192,
    "evaluation_split": None,
    "lr": 1e-5,
}


@pytest.fixture
def config(make_config, tmp_path):
    """Makes the config of an algorithm with a model whose chat template shows tools."""
    model = str(save_chat_model(tmp_path / "model", tool_tokenizer()))

    def make(config_class, **settings):
        made = make_config(config_class, **{"model": model, **CHAT, **settings})
        made.environment(DESK, env_config={"max_steps": 8})
        return made

    return make


@pytest.mark.usefixtures("cluster")
def test_calls_of_a_demonstrator_are_played_and_learned(build, config):
    tokenizer = tool_tokenizer()
    algorithm = build(config(ImitationConfig))
    result = algorithm.train()
    rollouts = algorithm.rollouts
    assert result["missing_rollouts"] == 0
    for rollout in rollouts:
        assert rollout.won
        for step, after in zip(rollout.steps, rollout.steps[1:], strict=False):
            ((name, arguments),) = read_calls(step.action)
            past = [*step.prompt_ids.tolist(), *step.response_ids.tolist()]
            assert after.prompt_ids[: len(past)].tolist() == past
            assert tokenizer.decode(step.response_ids) == (
                f'<tool_call>\n{{"name": "{name}", "arguments": {{"order": {arguments["order"]}}}}}'
                "\n</tool_call><|im_end|>"
            )
            assert tokenizer.decode(after.prompt_ids[len(past) :]) == (
                f"\n<|im_start|>user\n<tool_response>\n{after.observation}\n</tool_response>"
                "<|im_end|>\n<|im_start|>assistant\n"
            )


@pytest.mark.usefixtures("cluster")
def test_trca_trains_on_responses_without_a_call_too(build, config):
    algorithm = build(config(TRCAConfig, group_size=2))
    result = algorithm.train()
    rollouts = algorithm.rollouts
    assert result["missing_rollouts"] == 0
    steps = [step for rollout in rollouts for step in rollout.steps]
    assert all(len(step.judgments) == 4 and step.judgments[1] for step in steps)
    assert steps[1].observation == "There is no call. Call one of the tools: show, refund."


def test_what_calls_of_tools_need_is_checked(config, tmp_path):
    config(TRCAConfig).validate()
    with pytest.raises(ValueError, match="set template to chat, or response_format to action"):
        config(TRCAConfig, template="paper").validate()
    plain = save_chat_model(tmp_path / "plain", qwen3_tokenizer())
    with pytest.raises(ValueError, match="the chat template of the tokenizer shows no tools"):
        config(TRCAConfig, model=str(plain)).validate()
