"""Agent programs: what they ask by ``base_url`` is recorded as the engine sampled it."""

import json
import os
import socket
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import numpy as np
import pytest
from openai import OpenAI

from tests.algorithms.rollouts.test_chat_rollouts import continues
from tests.algorithms.rollouts.test_loop import GROUPS, SAMPLING, make_loop
from tests.chats import qwen3_tokenizer, save_chat_model
from trca.algorithms import GRPOConfig, ImitationConfig, TRCAConfig, TurnPPOConfig
from trca.algorithms.rollouts.batch import derive_seed
from trca.common.registry import load_file
from trca.policies.engines.engine import Request, SamplingParams
from trca.policies.engines.transformers import TransformersEngine
from trca.policies.models import load_model, load_tokenizer
from trca.policies.prompts import Prompter

EXAMPLE = Path(__file__).parents[3] / "examples/gateway/agent.py"
agent = load_file(EXAMPLE).agent
CLIENT = httpx.Client(timeout=600)


def ask(base_url, content="take the key.", **fields):
    messages = content if isinstance(content, list) else [{"role": "user", "content": content}]
    body = {"model": "policy", "messages": messages, **fields}
    return CLIENT.post(f"{base_url}/chat/completions", json=body)


def text_of(reply):
    return reply.json()["choices"][0]["message"]["content"]


def sing_to_the_end(env, base_url):
    while True:
        ask(base_url, max_tokens=2)
        _, _, terminated, truncated, _ = env.step("sing")
        if terminated or truncated:
            return


def play(model, program, groups=GROUPS[:1], sampling=SAMPLING, **arguments):
    loop = make_loop(model, program=program, **arguments)
    batch = loop.run(groups, sampling)
    loop.close()
    return batch


def test_the_gateways_ids_equal_the_engines(model):
    """Twelve conversations at once, against the rollout loop's own prompts and its engine."""
    prompter = Prompter(load_tokenizer(str(model)), "compact", history_length=0)
    loop = make_loop(model, prompter=prompter)
    expected = loop.run(GROUPS, SAMPLING).rollouts
    played = play(model, agent, GROUPS).rollouts
    assert len(played) == len(expected) == 12
    for one, other in zip(played, expected, strict=True):
        assert (one.group, one.index, one.won) == (other.group, other.index, other.won)
        assert len(one.steps) == len(other.steps)
        for number, (a, b) in enumerate(zip(one.steps, other.steps, strict=True)):
            assert a.prompt_ids.tolist() == b.prompt_ids.tolist()
            assert a.response_ids.tolist() == b.response_ids.tolist()
            assert a.old_logprobs.tolist() == b.old_logprobs.tolist()
            assert a.action_mask.all()
            assert len(a.action_mask) == len(a.response_ids) > 0
            assert (a.action, a.reward, a.response) == (b.action, b.reward, b.response)
            assert a.judgments.tolist() == b.judgments.tolist()
            seed = derive_seed("training", 7, 0, one.group, one.index, number)
            sampling = SamplingParams(1.0, 96, ("</action>",))
            [again] = loop.engine.generate([Request(a.prompt_ids, seed)], sampling)
            assert a.response_ids.tolist() == again.ids.tolist()
    loop.close()


def test_an_agent_reaches_the_gateway_on_a_machine_with_a_proxy(model, monkeypatch, free_port):
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{free_port}")  # where nothing listens
    monkeypatch.setenv("NO_PROXY", "example.org")
    monkeypatch.delenv("no_proxy", raising=False)
    assert len(play(model, agent).rollouts) == 4
    assert os.environ["NO_PROXY"] == "example.org,127.0.0.1"


@pytest.fixture(scope="module")
def chat(tmp_path_factory):
    return save_chat_model(tmp_path_factory.mktemp("chat"), qwen3_tokenizer())


def test_a_conversation_keeps_its_ids_until_the_client_changes_its_history(chat):
    def talk(change):
        def talks(env, base_url):
            client = OpenAI(base_url=base_url, api_key="none")
            observation, _ = env.reset()
            messages, done = [], False
            while not done:
                messages.append({"role": "user", "content": observation})
                reply = client.chat.completions.create(
                    model="policy", messages=messages, max_tokens=6
                )
                text = reply.choices[0].message.content
                messages.append({"role": "assistant", "content": text + change})
                observation, _, terminated, truncated, _ = env.step("sing")
                done = terminated or truncated

        return talks

    tokenizer = load_tokenizer(str(chat))
    prompter = Prompter(tokenizer)
    kept = play(chat, talk(""), prompter=prompter).rollouts
    assert len(kept) == 4
    assert all(continues(rollout, tokenizer) for rollout in kept)
    assert {rollout.measures["contexts"] for rollout in kept} == {1}
    encoded = [
        tokenizer(tokenizer.decode(s.response_ids), add_special_tokens=False)["input_ids"]
        for rollout in kept
        for s in rollout.steps
    ]
    assert encoded != [s.response_ids.tolist() for rollout in kept for s in rollout.steps]
    changed = play(chat, talk(" not"), prompter=prompter).rollouts
    assert not any(continues(rollout, tokenizer) for rollout in changed)
    assert {rollout.measures["contexts"] for rollout in changed} == {4}


def thinks_twice(env, base_url):
    """Starts without a question; then asks twice before a step."""
    _, _, terminated, truncated, _ = env.step("go")
    while not (terminated or truncated):
        ask(base_url, "an unused draft", max_tokens=2)
        first = {"role": "user", "content": "take the key."}
        answer = {"role": "assistant", "content": text_of(ask(base_url, [first], max_tokens=3))}
        more = {"role": "user", "content": "sure?"}
        last = text_of(ask(base_url, [first, answer, more], stop="</action>"))
        _, _, terminated, truncated, _ = env.step(last.rpartition("<action>")[2])


def test_a_step_has_the_newest_context_and_its_mask_the_sampled_tokens(model):
    tokenizer = load_tokenizer(str(model))
    rollouts = play(model, thinks_twice).rollouts
    assert len(rollouts) == 4
    for rollout in rollouts:
        begin, *steps = rollout.steps
        assert begin.action == "go"
        assert len(begin.response_ids) == len(begin.action_mask) == 0
        assert rollout.measures["untrained_responses"] == len(steps)
        for step in steps:
            assert tokenizer.decode(step.prompt_ids) == "take the key."
            assert tokenizer.decode(step.response_ids[~step.action_mask]) == "sure?"
            assert (step.old_logprobs[step.action_mask] < 0).all()
            assert (step.old_logprobs[~step.action_mask] == 0).all()


BAD = {
    "no JSON": ("{", None),
    "stream": ({"stream": True}, "stream"),
    "several": ({"n": 2}, "n"),
    "filter": ({"top_p": 0.5}, "top_p"),
    "tools": ({"tools": [{"type": "function"}]}, "tools"),
    "temperature": ({"temperature": 0.5}, "temperature"),
    "long answer": ({"max_tokens": 97}, "max_tokens"),
    "no messages": ({"messages": []}, "messages"),
    "picture": ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages."),
    "calls": ({"messages": [{"role": "user", "content": "", "tool_calls": [1]}]}, "messages.0."),
    "answer last": ({"messages": [{"role": "assistant", "content": "go"}]}, "messages"),
    "long prompt": ({"messages": [{"role": "user", "content": "x" * 5000}]}, "messages"),
    "huge request": (" " * 10_000_000, None),
    "huge prompt": ({"messages": [{"role": "user", "content": "x" * 500_000}]}, "messages"),
}


def test_a_refused_request_gets_openais_error_and_changes_nothing(model):
    errors = {}

    def clumsy(env, base_url):
        for name, (fields, _) in BAD.items():
            url = f"{base_url}/chat/completions"
            usual = {"messages": [{"role": "user", "content": "a"}], "n": 1, "stream": False}
            body = fields if isinstance(fields, str) else json.dumps(usual | fields)
            errors[name] = CLIENT.post(url, content=body)
        other = base_url.replace("rollouts/", "rollouts/0")
        errors["unknown rollout"] = ask(other)
        errors["unknown address"] = CLIENT.post(f"{base_url}/responses", json={})
        errors["unknown method"] = CLIENT.get(f"{base_url}/chat/completions")
        agent(env, base_url)

    usual, after = play(model, agent).rollouts, play(model, clumsy).rollouts
    ids = [[s.response_ids.tolist() for r in each for s in r.steps] for each in (usual, after)]
    assert ids[0] == ids[1] != []
    for name, reply in errors.items():
        error = reply.json()["error"]
        assert error.keys() == {"message", "type", "param", "code"}
        assert reply.headers["x-should-retry"] == "false"
        status = 404 if name.startswith("unknown") else 413 if name == "huge request" else 400
        assert reply.status_code == status, name
        assert str(error["param"]).startswith(str(BAD.get(name, ("", None))[1])), name
    for name, size in (("long prompt", " tokens"), ("huge prompt", "500000 characters")):
        error = errors[name].json()["error"]
        assert error["code"] == "context_length_exceeded"
        assert size in error["message"]


def test_parameters_of_a_request_reach_the_engine(model):
    replies = []

    def asks(env, base_url):
        for seed in (3, 3, 4):
            fields = {"seed": seed, "temperature": 2.0, "max_completion_tokens": 9}
            replies.append(ask(base_url, logprobs=True, **fields).json()["choices"][0])
        endless = b'{"messages": [{"role": "user", "content": "a"}], "temperature": 1e999}'
        replies.append(CLIENT.post(f"{base_url}/chat/completions", content=endless).json())
        sing_to_the_end(env, base_url)

    group = GROUPS[0].__class__(0, "train-0", "train", 1, ("evaluation",))
    play(model, asks, [group])
    first, second, third, refused = replies
    assert refused["error"]["message"] == "temperature: Input should be a finite number"
    assert first == second != third
    tokenizer = load_tokenizer(str(model))
    engine = TransformersEngine(load_model(str(model)), tokenizer)
    prompt = np.array(tokenizer("take the key.")["input_ids"], dtype=np.int32)
    [made] = engine.generate([Request(prompt, 4)], SamplingParams(2.0, 9))
    tokens = third["logprobs"]["content"]
    assert [token["logprob"] for token in tokens] == made.logprobs.tolist()
    assert bytes(b for t in tokens for b in t["bytes"]).decode() == tokenizer.decode(made.ids)


def leaves(env, base_url):
    env.step("sing")


def swallows(env, base_url):
    """Ends the episode although its engine has failed."""
    for _ in range(env.max_steps):
        assert ask(base_url).status_code == 500
        env.step("sing")


def ignores(env, base_url):
    for _ in range(env.max_steps):
        try:
            env.step("sing")
        except Exception:
            return


def dies(env, base_url):
    env.step("sing")
    raise KeyError("mid-way")


async def asynchronous(env, base_url):
    dies(env, base_url)


class BrokenEngine(TransformersEngine):
    def generate(self, requests, sampling):
        raise OSError("the engine is on fire")


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        (dies, "KeyError: 'mid-way'"),
        (asynchronous, "KeyError: 'mid-way'"),
        (leaves, "returned after 1 steps, before the end of the episode"),
        (ignores, "RuntimeError: the roof is leaking"),
        (swallows, "OSError: the engine is on fire"),
    ],
)
def test_a_technical_failure_is_a_missing_rollout(model, program, reason):
    arguments = {"env_config": {"leaking": ("train-0",) if program is ignores else ()}}
    if program is swallows:
        tokenizer = load_tokenizer(str(model))
        arguments["engine"] = BrokenEngine(load_model(str(model)), tokenizer)
    batch = play(model, program, **arguments)
    assert batch.rollouts == []
    [failure] = batch.failures
    assert failure.rollouts == 4
    assert reason in failure.reason


def test_a_response_that_no_client_reads_is_no_part_of_the_rollout(model):
    gone = threading.Event()

    class Waiting(TransformersEngine):
        def generate(self, requests, sampling):
            assert gone.wait(600)
            return super().generate(requests, sampling)

    def hangs_up(env, base_url):
        url, body = urlsplit(base_url), b'{"messages": [{"role": "user", "content": "lost"}]}'
        with socket.create_connection((url.hostname, url.port)) as connection:
            head = f"POST {url.path}/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Length: "
            connection.sendall(f"{head}{len(body)}\r\n\r\n".encode() + body)
            time.sleep(0.3)
        time.sleep(0.3)  # the server sees the end of the connection
        gone.set()
        sing_to_the_end(env, base_url)

    tokenizer = load_tokenizer(str(model))
    group = GROUPS[0].__class__(0, "train-0", "train", 1, ("evaluation",))
    engine = Waiting(load_model(str(model)), tokenizer)
    [rollout] = play(model, hangs_up, [group], engine=engine).rollouts
    assert rollout.measures["untrained_responses"] == 0
    assert {tokenizer.decode(s.prompt_ids) for s in rollout.steps} == {"take the key."}


@pytest.mark.usefixtures("cluster")
def test_an_agent_with_the_openai_client_trains_the_quickstart():
    config = TRCAConfig.from_preset("quickstart").training(
        agent_program=f"{EXAMPLE}:agent", tasks_per_iteration=2, group_size=4, max_staleness=0
    )
    config.env_runners(num_env_runners=0).learners(num_learners=0)
    trained(config)


@pytest.mark.usefixtures("cluster")
def test_steps_with_several_responses_or_none_are_trained(make_config):
    trained(make_config(agent_program=f"{__name__}:thinks_twice"))


def trained(config):
    algorithm = config.build_algo()
    for _ in range(2):
        result = algorithm.train()
        assert result["missing_rollouts"] == 0
        assert abs(result["mismatch_kl"]) < 1e-9
        assert result["grad_norm"] > 0
        assert result["measures"]["contexts"] > 1
    algorithm.stop()


def test_what_prompts_the_policy_itself_is_refused(make_config):
    program = f"{EXAMPLE}:agent"
    with pytest.raises(ValueError, match="choose an algorithm without a critic"):
        make_config(TurnPPOConfig, agent_program=program).validate()
    with pytest.raises(ValueError, match="a team: leave env_config"):
        make_config(GRPOConfig, {"team": "alfworld_planner"}, agent_program=program).validate()
    with pytest.raises(ValueError, match="the teacher of Imitation"):
        make_config(ImitationConfig, agent_program=program).validate()
    with pytest.raises(ValueError, match="has no 'agnt'"):
        make_config(agent_program=f"{EXAMPLE}:agnt")
