"""SearchQA in prompts: a tiny policy's context holds three passages; the paper's prompt."""

import gymnasium
import numpy as np
import pytest

from trca.envs import make
from trca.policies.bpe import train_tokenizer
from trca.policies.prompts import Prompter
from trca.policies.tiny import spec_of
from trca.policies.warmstart import demonstrate
from trca.tune_configs.files import read


@pytest.fixture(scope="module")
def demonstrated():
    """The tokenizer of a tiny policy for different content, and steps in the environment."""
    settings = read("searchqa")
    spec = spec_of(settings["env"])

    def steps(seed, count):
        env = gymnasium.make(
            f"trca.envs:{settings['env']}",
            disable_env_checker=True,
            seed=seed,
            **settings["env_config"],
        )
        randomness = spec.stages[0].randomness
        return demonstrate([env], randomness, count, 0, 0, lambda *_: None, spec.deliberate)

    others = steps(1, 3200)
    texts = [f"{example.prompt}{example.response}" for example in others]
    tokenizer = train_tokenizer(texts, {e.action for e in others}, spec.words, spec.merges)
    return tokenizer, steps(0, 800), settings


def test_every_step_fits_the_tiny_policys_prompt(demonstrated):
    tokenizer, examples, settings = demonstrated
    lengths = [len(tokenizer(e.prompt)["input_ids"]) for e in examples]
    answers = [len(tokenizer(e.response)["input_ids"]) for e in examples]
    assert max(lengths) < settings["max_prompt_tokens"]
    assert max(answers) < settings["max_new_tokens"]
    assert np.mean(lengths) < 110
    assert any("[3]" in example.prompt for example in examples)


def test_names_are_asked_and_answered_in_the_words_of_the_prompt(demonstrated):
    _, examples, _ = demonstrated
    sought = [e for e in examples if e.action.startswith("search[")]
    copied = [e.action.removeprefix("search[").removesuffix("]") in e.prompt for e in sought]
    assert np.mean(copied) > 0.7
    assert not any("<" in e.action for e in examples)


def test_the_compact_prompt_offers_what_has_a_blank(demonstrated):
    _, examples, _ = demonstrated
    assert all("\nsearch [<your query>]\n" in e.prompt for e in examples)
    assert all(e.prompt.endswith("\nanswer [<your answer>]\n") for e in examples)


@pytest.mark.parametrize("randomness", [0.0, 1.0])
def test_what_a_searcher_demonstrates_to_tell_is_an_answer_that_it_read(randomness):
    env = make("searchqa", team="searchqa_searcher")
    deliberate = spec_of("trca/SearchQA-v0").deliberate
    examples = demonstrate([env], randomness, 200, 0, 0, lambda *_: None, deliberate)
    messages = [e for e in examples if e.action.startswith("tell[")]
    copied = [e.action.removeprefix("tell[").removesuffix("]") in e.prompt for e in messages]
    assert (not messages) == (randomness == 1.0)
    assert all(copied)


def test_the_paper_prompt_shows_question_results_and_offers(demonstrated):
    tokenizer, *_ = demonstrated
    env = gymnasium.make("trca.envs:trca/SearchQA-v0", disable_env_checker=True)
    first, info = env.reset(seed=0)
    query = env.unwrapped.demonstrator_action()
    page, *_, info = env.step(query)
    ids = Prompter(tokenizer, "paper", 2, 4000).encode(
        instruction=info["task"],
        step=1,
        max_steps=4,
        history=[(first, query)],
        observation=page,
        admissible=info["admissible_actions"],
    )
    text = tokenizer.decode(ids)
    for part in (
        info["task"],
        page,
        f"Action 1: '{query}'",
        "'open[1]'",
        "'answer[<your answer>]'",
    ):
        assert part in text
