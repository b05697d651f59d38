"""WebShop in prompts: a tiny policy's context holds ten products; history is dropped first."""

import re

import gymnasium
import numpy as np
import pytest

from trca.policies.bpe import train_tokenizer
from trca.policies.prompts import Prompter
from trca.policies.warmstart import demonstrate
from trca.tune_configs.files import read


@pytest.fixture(scope="module")
def shop():
    """The tokenizer of a tiny policy, and the first two pages of an episode."""
    env = gymnasium.make("trca.envs:trca/WebShop-v0", disable_env_checker=True)
    examples = demonstrate([env], 0.3, 800, 0, 0, lambda *_: None)
    texts = [f"{example.prompt}{example.response}" for example in examples]
    tokenizer = train_tokenizer(texts, {e.action for e in examples}, 2000, 1000)
    first, info = env.reset(options={"task": env.unwrapped.task_ids[0]})
    query = env.unwrapped.demonstrator_action()
    page, *_, info = env.step(query)
    return tokenizer, examples, first, query, page, info


def test_every_page_fits_the_tiny_policys_prompt(shop):
    tokenizer, examples, *_ = shop
    settings = read("webshop")
    lengths = [len(tokenizer(e.prompt)["input_ids"]) for e in examples]
    answers = [len(tokenizer(e.response)["input_ids"]) for e in examples]
    assert max(lengths) < settings["max_prompt_tokens"]
    assert max(answers) < settings["max_new_tokens"]
    assert np.mean(lengths) < 140
    pages = [e.prompt for e in examples if "\nPage 1 for" in e.prompt]
    assert max(len(re.findall(r"\[[a-z]{3}\d\d[a-z]{3}\d\d\]", page)) for page in pages) == 10


def test_the_paper_prompt_says_all_and_gives_the_history_up_before_the_page(shop):
    tokenizer, _, first, query, page, info = shop

    def prompt(limit):
        ids = Prompter(tokenizer, "paper", 2, limit).encode(
            instruction=info["task"],
            step=1,
            max_steps=15,
            history=[(first, query)],
            observation=page,
            admissible=info["admissible_actions"],
        )
        assert len(ids) <= limit
        return len(ids), tokenizer.decode(ids)

    length, whole = prompt(4000)
    assert f"Action 1: '{query}'" in whole
    assert page in whole
    assert "'click[back to search]'" in whole
    assert "<think>" in whole
    assert "<action>" in whole
    _, shorter = prompt(length - 1)
    assert "Action 1" not in shorter
    assert page in shorter
    _, cut = prompt(length // 2)
    assert page not in cut
    assert "Page 1" in cut


def test_the_demonstrator_searches_with_words_in_place_of_the_blank(shop):
    _, examples, *_ = shop
    searches = [e.action for e in examples if e.action.startswith("search[")]
    assert len(searches) > 50
    assert not any("<" in action for action in searches)
