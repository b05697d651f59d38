"""A tiny model behind a real OpenAI-compatible server plays SearchQA through Search-R1's tags."""

import subprocess
import sys
import time

import httpx
import openai
import pytest
import torch

from trca.envs import make
from trca.envs.responses import TaggedResponse
from trca.envs.searchqa.search_r1 import SEARCH_R1_FORMAT, dialect_prompt, in_dialect
from trca.policies.bpe import END, train_tokenizer
from trca.policies.tiny import TinySpec, new_model
from trca.policies.warmstart import imitate

TEMPLATE = """\
{% for message in messages %}<|im_start|>{{ message['role'] }}
{{ message['content'] }}<|im_end|>
{% endfor %}<|im_start|>assistant
"""


def world_of(split):
    """Passages are listed whole, since the dialect opens none."""
    return make("searchqa", questions="small", split=split, max_passage_chars=1000)


def asked(info, past, observation):
    return dialect_prompt(info["task"], len(past), 4, past, "", observation, ())


def demonstrations(world, episodes):
    """Prompts and responses of the sensible player."""
    rows = []
    for task in (world.unwrapped.task_ids * 2)[:episodes]:
        observation, info = world.reset(options={"task": task})
        past, over = [], False
        while not over:
            command = world.unwrapped.demonstrator_action()
            response = f"<think>ok</think>{in_dialect(command)}{END}"
            rows.append((asked(info, past, observation), response))
            past.append((observation, command))
            observation, _, terminated, truncated, info = world.step(command)
            over = terminated or truncated
    return rows


def chat_ids(tokenizer, prompt):
    message = {"role": "user", "content": prompt}
    return tokenizer.apply_chat_template([message], return_dict=False)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Folder of a model that has learnt to write the tags, if not what to search for."""
    rows = demonstrations(world_of("train"), 240)
    tokenizer = train_tokenizer([f"{a}{b}" for a, b in rows], [], 2000, 500)
    tokenizer.chat_template = TEMPLATE
    ids = [(chat_ids(tokenizer, a), tokenizer(b)["input_ids"]) for a, b in rows]
    sizes = TinySpec(hidden_size=48, layers=1, heads=2, kv_heads=1, feed_forward=96)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = new_model(tokenizer, sizes)
    imitate(
        network,
        [ids] * 2,
        batch_size=8,
        lr=5e-3,
        warmup=10,
        prompt_weight=0.0,
        seed=0,
        threads=1,
        tick=lambda *_: None,
    )
    network.generation_config.update(eos_token_id=tokenizer.eos_token_id, do_sample=True)
    folder = tmp_path_factory.mktemp("served")
    network.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def client(model, free_port):
    """A client of ``transformers serve``."""
    command = [sys.executable, "-m", "transformers.cli.transformers", "serve", str(model)]
    server = subprocess.Popen(
        [*command, "--port", str(free_port), "--device", "cpu"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until_healthy(server, f"http://localhost:{free_port}/health")
        with openai.OpenAI(base_url=f"http://localhost:{free_port}/v1", api_key="none") as client:
            yield client
    finally:
        server.kill()
        server.wait()


def wait_until_healthy(server, url):
    while server.poll() is None:
        try:
            if httpx.get(url).status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.2)
    raise AssertionError("the server ended")


def test_it_searches_and_answers_in_the_tags(client, model):
    inner = world_of("test")
    world = TaggedResponse(inner, SEARCH_R1_FORMAT)
    verbs = set()
    for number, task in enumerate(inner.unwrapped.task_ids[:12]):
        observation, info = world.reset(options={"task": task})
        past, over = [], False
        while not over:
            prompt = asked(info, past, observation)
            reply = client.chat.completions.create(
                model=str(model),
                messages=[{"role": "user", "content": prompt}],
                max_tokens=40,
                temperature=1.0,
                seed=4 * number + len(past),
            )
            response = reply.choices[0].message.content
            command = SEARCH_R1_FORMAT.read(response).action
            past.append((observation, command))
            observation, _, terminated, truncated, info = world.step(response)
            assert info["parsed"] == bool(command)
            verbs |= {command.partition("[")[0]} if info["accepted"] else set()
            over = terminated or truncated
        assert set(info["measures"]) == {"f1", "gold_recall"}
    assert verbs == {"search", "answer"}
