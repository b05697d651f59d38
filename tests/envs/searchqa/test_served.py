"""A tiny model behind a real OpenAI-compatible server plays SearchQA with Search-R1's tags."""

import openai
import pytest

from tests.served import served, taught
from trca.envs import make
from trca.envs.searchqa.search_r1 import SEARCH_R1_FORMAT, dialect_prompt, in_dialect
from trca.policies.bpe import END, train_tokenizer

pytestmark = pytest.mark.slow


def world_of(split):
    """An environment that lists complete passages, since the dialect opens no passages."""
    return make("searchqa", questions="small", split=split, max_passage_chars=1000)


def asked(info, past, observation):
    return dialect_prompt(info["task"], len(past), 4, past, "", observation, ())


def demonstrations(env, episodes):
    """Prompts and responses of the demonstrator."""
    rows = []
    for task in (env.unwrapped.task_ids * 2)[:episodes]:
        observation, info = env.reset(options={"task": task})
        past, over = [], False
        while not over:
            action = env.unwrapped.demonstrator_action()
            response = f"<think>ok</think>{in_dialect(action)}{END}"
            rows.append((asked(info, past, observation), response))
            past.append((observation, action))
            observation, _, terminated, truncated, info = env.step(action)
            over = terminated or truncated
    return rows


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Folder of a model that writes the tags, with arbitrary queries."""
    rows = demonstrations(world_of("train"), 240)
    tokenizer = train_tokenizer([f"{a}{b}" for a, b in rows], [], 2000, 500)
    return taught(tmp_path_factory.mktemp("served"), tokenizer, rows)


@pytest.fixture
def client(model, free_port):
    """A client of ``transformers serve``."""
    with served(model, free_port) as url, openai.OpenAI(base_url=url, api_key="none") as client:
        yield client


def test_it_searches_and_answers_in_the_tags(client, model):
    env = world_of("test")
    verbs = set()
    for number, task in enumerate(env.unwrapped.task_ids[:12]):
        observation, info = env.reset(options={"task": task})
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
            action = SEARCH_R1_FORMAT.read(response).action
            past.append((observation, action))
            observation, _, terminated, truncated, info = env.step(action)
            assert info["parsed"] == bool(action)
            verbs |= {action.partition("[")[0]} if info["accepted"] else set()
            over = terminated or truncated
        assert set(info["measures"]) == {"f1", "word_set_f1", "gold_recall"}
    assert verbs == {"search", "answer"}
