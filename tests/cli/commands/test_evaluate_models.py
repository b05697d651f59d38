"""``trca evaluate MODEL``: the prompt of a model without a run, and unreadable responses."""

import json

import pytest

from tests.cli.calls import done
from trca.policies.models import load_tokenizer
from trca.policies.shrunk import shrunk_model
from trca.records import read_rollouts


@pytest.fixture(scope="module")
def model():
    """Folder of an untrained model whose tokenizer has a chat template."""
    return str(shrunk_model("Qwen/Qwen2.5-1.5B-Instruct"))


def evaluate(*arguments):
    short = ("--tasks=2", "--set=env_config.max_steps=2", "--transcripts")
    output = done("evaluate", *short, *arguments)
    return " ".join(output.split())


def evaluation(here):
    [path] = here.glob("outputs/*.json")
    [rollouts] = here.glob("outputs/*.parquet")
    return json.loads(path.read_text()), next(read_rollouts(rollouts))


@pytest.mark.parametrize("name", ["folder", "shrunk:Qwen/Qwen2.5-1.5B-Instruct"])
def test_a_model_with_a_chat_template_gets_a_chat_prompt(here, model, name):
    output = evaluate(model if name == "folder" else name, "--set=max_new_tokens=8")
    assert "Prompt: zero-shot" in output
    report, rollout = evaluation(here)
    assert report["agent"] == "zero-shot"
    assert report["settings"]["template"] == "paper"
    prompt = load_tokenizer(model).decode(rollout.steps[0].prompt_ids)
    assert prompt.startswith("<|im_start|>")
    assert "<action> </action> tags" in prompt


def test_without_a_readable_response_the_command_says_why_and_what_to_do(here, model):
    output = evaluate(model, "--config=quickstart", "--set=max_new_tokens=8")
    assert "no response contains an action in the response format 'action'" in output
    assert "4 of 4 responses end at the limit of 8 tokens" in output
    assert "use --agent zero-shot" in output
    report, _ = evaluation(here)
    assert report["settings"]["template"] == "compact"
    assert report["rows"][-1]["parsed_ratio"] == 0


def test_the_tiny_policy_keeps_its_prompt_and_its_share_of_readable_responses_is_shown(here):
    output = evaluate("tiny")
    assert "task type n success 95% interval ratio steps missing" in output
    assert "warning" not in output
    report, _ = evaluation(here)
    assert "agent" not in report
    assert report["settings"]["template"] == "compact"
    assert report["settings"]["max_new_tokens"] == 24
    assert report["rows"][-1]["parsed_ratio"] > 0.5
