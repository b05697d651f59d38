from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from ray.tune.registry import register_env
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from tests import toy
from trca.algorithms import TRCAConfig
from trca.envs.responses import PLAN_FORMAT, write_plan
from trca.policies.prompts import Prompter

TAGS = ["<think>", "</think>", "<action>", "</action>"]


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Qwen3 of two tiny layers that takes any of the toy environment's actions, by chance."""
    return rooms_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="session")
def planner(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same model with responses of any switch and one of two subgoals."""
    said = [
        write_plan(switch, subgoal, action)
        for switch in (True, False)
        for subgoal in ("key", "room")
        for action in toy.ACTIONS
    ]
    return rooms_model(tmp_path_factory.mktemp("planner"), tags=PLAN_FORMAT.tags, said=said)


def rooms_model(
    folder: Path,
    head_dim: int = 16,
    tags: Sequence[str] = TAGS,
    said: Sequence[str] = tuple(f"<action>{action}</action>" for action in toy.ACTIONS),
) -> Path:
    """Trains and saves a model for the toy environment that answers with any of the responses."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<|end|>"],
    )
    text = "take the key.\nYou are in room 0. You are in room 1. A key is here.\n"
    tokenizer.train_from_iterator([text + " ".join(toy.ACTIONS)] * 4, trainer)
    tokenizer.add_tokens([AddedToken(tag, normalized=False) for tag in tags])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|end|>", pad_token="<|end|>"
    )
    fast.save_pretrained(folder)
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=len(fast),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=head_dim,
        max_position_embeddings=4096,
        tie_word_embeddings=True,
        eos_token_id=fast.eos_token_id,
        pad_token_id=fast.pad_token_id,
    )
    model = Qwen3ForCausalLM(config)
    learn_to_speak(model, fast, said)
    model.save_pretrained(folder)
    return folder


def learn_to_speak(model: Any, tokenizer: Any, responses: Sequence[str]) -> None:
    """Imitates an agent that responds at random."""
    prompter, rng = Prompter(tokenizer, "compact"), np.random.default_rng(0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    for _ in range(60):
        room = "0." if rng.random() < 0.5 else "1. A key is here."
        prompt = prompter.encode(
            instruction="take the key.",
            step=0,
            max_steps=4,
            history=[("", str(a)) for a in rng.choice(toy.ACTIONS, rng.integers(0, 3))],
            observation=f"You are in room {room}",
            admissible=toy.ACTIONS,
        )
        said = [tokenizer.encode(response) for response in responses]
        longest = max(map(len, said))
        ids = torch.tensor([[*prompt, *s, *[0] * (longest - len(s))] for s in said])
        labels = torch.tensor(
            [[-100] * len(prompt) + s + [-100] * (longest - len(s)) for s in said]
        )
        optimizer.zero_grad()
        model(ids, labels=labels).loss.backward()
        optimizer.step()


@pytest.fixture(scope="session")
def make_config(model: Path) -> Callable[..., Any]:
    """Small settings in the toy environment, for any algorithm."""
    register_env("Rooms", toy.make_rooms)

    def make(config_class: type = TRCAConfig, env_config: Any = None, **settings: Any) -> Any:
        config = config_class()
        config.environment("Rooms", env_config=env_config or {})
        config.debugging(seed=7)
        config.update_from_dict(
            {
                "model": str(model),
                "template": "compact",
                "tasks_per_iteration": 4,
                "group_size": 4,
                "max_new_tokens": 8,
                "train_malformed": True,  # a random policy writes no action
                "minibatch_size": 24,
                "micro_batch_tokens": 512,
                "lr": 1e-3,
                "evaluation_split": "valid",
                "evaluation_tasks": 5,
                **settings,
            }
        )
        return config

    return make


@pytest.fixture
def build():
    """Builds the algorithm of a config and stops it after the test."""
    built = []

    def of(config):
        built.append(config.build_algo())
        return built[-1]

    yield of
    for algorithm in built:
        algorithm.stop()
